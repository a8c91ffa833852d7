import type { Page, PageReader } from '#src/query/pages.js';

/** The page that a query, or its pages, give when it is ready; null: there is none of that number. */
export function readPage(
  source: { readPage(number: number, reader: PageReader): boolean },
  number: number,
): Promise<Page> | null {
  let isThere = false;
  const page = new Promise<Page>((resolve, reject) => {
    isThere = source.readPage(number, { page: resolve, noPage: reject });
  });
  return isThere ? page : null;
}
