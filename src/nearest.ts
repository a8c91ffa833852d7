/** The largest distance of a misspelling, as a fraction of its length. */
const distanceMax = 0.4;

/**
 * The word of `words` that `typed` is probably a misspelling of; null if none is near. The distance counts letters that are
 * inserted, removed, replaced, or swapped with their neighbour (Damerau–Levenshtein, optimal string alignment). If none is
 * near, it is the only word that ends with `typed` (`port`: `http_handler_port`), or with at least two of its last parts
 * (`whole_results_max`: `single_page_results_max`).
 */
export function nearest(typed: string, words: readonly string[]): string | null {
  let best: string | null = null;
  let bestDistance = Math.floor(distanceMax * typed.length) + 1;
  for (const word of words) {
    const found = distance(typed, word);
    if (found < bestDistance) {
      best = word;
      bestDistance = found;
    }
  }
  if (best !== null) return best;
  const parts = typed.split('_');
  for (let from = 0; from === 0 || from <= parts.length - 2; from++) {
    const ending = `_${parts.slice(from).join('_')}`;
    const longer = words.filter((word) => word.endsWith(ending));
    if (longer.length > 0) return longer.length === 1 ? (longer[0] as string) : null;
  }
  return null;
}

function distance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (last[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      let cost = Math.min(replaced, (last[j] as number) + 1, (row[j - 1] as number) + 1);
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (isSwapped) cost = Math.min(cost, (beforeLast[j - 2] as number) + 1);
      row.push(cost);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length] as number;
}
