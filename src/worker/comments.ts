import { pastNothing } from '../wire/words.ts';

/**
 * Whether a statement says nothing: it has blanks, semicolons, and comments that neither server executes. Both servers answer an
 * empty one with an error and one of comments alone with a success, which would tell a client that something was done.
 */
export function saysNothing(sql: string): boolean {
  return pastNothing(sql, 0, false) === sql.length;
}
