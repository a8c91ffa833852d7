// The parts of a Markdown document that a test can check.

export interface Block {
  /** The info string of the fence; empty: none. */
  readonly language: string;
  readonly text: string;
  /** Where the fence begins, in lines from 1 on. */
  readonly line: number;
  /** Only blank lines are between this block and the one before it. */
  readonly isAdjacent: boolean;
}

/** The fenced blocks in order. */
export function blocksOf(markdown: string): readonly Block[] {
  const fences = [...markdown.matchAll(/^```(\w*)\n(.*?)^```$/gms)];
  let end = 0;
  return fences.map((fence, index) => {
    const between = markdown.slice(end, fence.index);
    end = fence.index + fence[0].length;
    return {
      language: fence[1] ?? '',
      text: fence[2] ?? '',
      line: markdown.slice(0, fence.index).split('\n').length,
      isAdjacent: index > 0 && between.trim() === '',
    };
  });
}

/** The titles of all sections. */
export function headingsOf(markdown: string): readonly string[] {
  return [...withoutBlocks(markdown).matchAll(/^#+ (.+)$/gm)].map(([, title = '']) => title);
}

/** The anchors of all sections, as GitHub makes them. */
export function anchorsOf(markdown: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  for (const title of headingsOf(markdown)) {
    const base = title
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-');
    let anchor = base;
    for (let number = 1; anchors.has(anchor); number++) anchor = `${base}-${number}`;
    anchors.add(anchor);
  }
  return anchors;
}

/** The targets of all links that are relative to the document. */
export function relativeLinksOf(markdown: string): readonly string[] {
  const text = withoutBlocks(markdown).replace(/`[^`\n]*`/g, '');
  return [...text.matchAll(/\]\(([^()\s]+)\)/g)]
    .map(([, target = '']) => target)
    .filter((target) => !/^[a-z][a-z0-9+.-]*:/i.test(target));
}

function withoutBlocks(markdown: string): string {
  return markdown.replace(/^```.*?^```$/gms, '');
}
