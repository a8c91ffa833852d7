import t from 'tap';
import { type Page, Pages } from '#src/query/pages.js';
import { Ring, type Rows } from '#src/query/ring.js';
import { running } from '#src/query/state.js';
import { batchOf, textOf } from './batches.ts';
import { readPage } from './read-page.ts';

const nothing = { rows: 0, bytes: 0 };

/** A reader's page by hand: the test decides when each is ready and what it holds. */
class Filler {
  readonly asked: number[] = [];
  readonly pages = new Pages({
    polledSince: null,
    isReadable: false,
    isReady: false,
    wait: () => {},
    take: (number) => {
      this.asked.push(number);
      return this.#take(number);
    },
  });
  #take: (number: number) => Page = () => {
    throw new Error('a page was made before its time');
  };

  get(number: number): Promise<Page> | null {
    return readPage(this.pages, number);
  }

  fail(error: Error): void {
    this.#take = () => {
      throw error;
    };
    this.pages.ready();
  }

  /** @param next undefined: as a query has it, the next number after rows and the same one after none */
  fill(rows: readonly string[], next?: number | null): void {
    this.#take = (number) => ({
      state: running,
      columns: [],
      stats: {
        runningMs: 1,
        scan: { ...nothing, known: false, estimatedRows: null },
        write: nothing,
        result: nothing,
        spill: nothing,
        queue: null,
      },
      number,
      rows: rowsOf(rows),
      next: next !== undefined ? next : rows.length > 0 ? number + 1 : number,
    });
    this.pages.ready();
  }
}

function rowsOf(rows: readonly string[]): Rows {
  const ring = new Ring();
  if (rows.length > 0) ring.push(batchOf(rows));
  return ring.take(rows.length, 2 ** 30);
}

t.test('pages come one after the other', async (t) => {
  const filler = new Filler();
  for (const number of [0, 1, 2]) {
    const asked = filler.get(number);
    filler.fill([`[${number}]`]);
    const page = await asked;
    t.equal(page?.number, number);
    t.equal(page && textOf(page.rows), `[${number}]`);
    t.equal(page?.next, number + 1);
  }
  t.strictSame(filler.asked, [0, 1, 2]);
});

t.test('a repeated page number returns the same bytes', async (t) => {
  const filler = new Filler();
  const asked = filler.get(0);
  t.equal(filler.pages.next, 0);
  filler.fill(['[1]', '[2]']);
  const page = await asked;
  t.equal(filler.pages.next, 1);
  t.equal(await filler.get(0), page);
  t.equal(await filler.get(0), page);
  t.strictSame(filler.asked, [0], 'it is filled once');
});

t.test('the last page can be repeated while the next one is waited for', async (t) => {
  const filler = new Filler();
  const first = filler.get(0);
  filler.fill(['[1]']);
  const page = await first;
  const second = filler.get(1);
  t.equal(await filler.get(0), page);
  filler.fill(['[2]']);
  await second;
  t.equal(filler.get(0), null, 'and not once the next one has been answered');
});

t.test('two polls of the same page get the same page', async (t) => {
  const filler = new Filler();
  const polls = [filler.get(0), filler.get(0), filler.get(0)];
  filler.fill(['[1]']);
  const [first, second, third] = await Promise.all(polls);
  t.ok(first);
  t.equal(second, first);
  t.equal(third, first);
  t.strictSame(filler.asked, [0]);
});

t.test('an empty poll repeats the number, and the poll after it is a new one', async (t) => {
  const filler = new Filler();
  let asked = filler.get(0);
  filler.fill([]);
  t.equal((await asked)?.next, 0);
  t.equal(filler.pages.next, 0, 'nothing is kept of it');
  asked = filler.get(0);
  filler.fill(['[1]']);
  t.equal((await asked)?.next, 1);
  asked = filler.get(1);
  filler.fill([]);
  t.equal((await asked)?.next, 1);
  t.equal((await filler.get(0))?.number, 0, 'the page before it is still the one to repeat');
  t.strictSame(filler.asked, [0, 0, 1]);
});

t.test('the last page has no next, can be repeated, and has one empty page past it', async (t) => {
  const filler = new Filler();
  const asked = filler.get(0);
  filler.fill(['[1]'], null);
  const page = await asked;
  t.equal(page?.next, null);
  t.equal(await filler.get(0), page);
  for (const _ of [1, 2]) {
    const past = await filler.get(1);
    t.equal(past?.number, 1);
    t.equal(past?.next, null);
    t.strictSame(past?.rows, { pieces: [], count: 0, bytes: 0, heldBytes: 0 });
    t.equal(past?.state, page?.state);
  }
  t.equal(filler.get(2), null);
  t.equal(await filler.get(0), page, 'looking past it does not lose it');
});

t.test('an empty result is one empty page, and one past it', async (t) => {
  const filler = new Filler();
  const asked = filler.get(0);
  filler.fill([], null);
  const page = await asked;
  t.equal(page?.rows.count, 0);
  t.equal(page?.next, null);
  t.equal(await filler.get(0), page);
  t.equal((await filler.get(1))?.next, null);
});

t.test('a number that is neither the last page nor the next one is none', async (t) => {
  const filler = new Filler();
  for (const number of [1, 2, -1, 2 ** 40]) t.equal(filler.get(number), null, `${number} before any`);
  for (const number of [0, 1, 2]) {
    const asked = filler.get(number);
    filler.fill(['[1]']);
    await asked;
  }
  for (const number of [0, 1, 4, 5, -1, 0.5, Number.NaN]) t.equal(filler.get(number), null, `${number}`);
  t.strictSame(filler.asked, [0, 1, 2]);
});

t.test('a page that could not be filled can be asked for again', async (t) => {
  const filler = new Filler();
  const asked = filler.get(0);
  filler.fail(new Error('no'));
  await t.rejects(asked as Promise<Page>, { message: 'no' });
  const again = filler.get(0);
  filler.fill(['[1]']);
  t.equal((await again)?.rows.count, 1);
});
