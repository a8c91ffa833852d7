/** Blanks, semicolons, and comments that neither server executes (MySQL manual, "Comments"). */
const nothingToDo = /\s+|;|#[^\n]*|--(?=[\s\0]|$)[^\n]*|\/\*(?![!M])[\s\S]*?\*\//y;

/**
 * Whether a statement says nothing. Both servers answer an empty one with an error and one of comments alone with a
 * success, which would tell a client that something was done.
 */
export function saysNothing(sql: string): boolean {
  for (let at = 0; at < sql.length; at = nothingToDo.lastIndex) {
    nothingToDo.lastIndex = at;
    if (!nothingToDo.test(sql)) return false;
  }
  return true;
}
