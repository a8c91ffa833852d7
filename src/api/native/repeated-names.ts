import type { Column } from '../../wire/statement.ts';

const shownMax = 10;
const shownCharacters = 100;

/** The names that several columns have, for a reader: `"a" or "b"`; empty if there are none. */
export function repeatedNames(columns: readonly Column[]): string {
  const seen = new Set<string>();
  const repeated = new Set<string>();
  for (const { name } of columns) (seen.has(name) ? repeated : seen).add(name);
  const shown = [...repeated].slice(0, shownMax).map((name) => JSON.stringify(name.slice(0, shownCharacters)));
  return shown.join(' or ');
}
