const [tab, lineFeed, carriageReturn, blank, bang, hash] = [0x09, 0x0a, 0x0d, 0x20, 0x21, 0x23];
const [parenthesis, asterisk, hyphen, slash, semicolon, capitalM] = [0x28, 0x2a, 0x2d, 0x2f, 0x3b, 0x4d];
const lastAscii = 0x7f;
const otherBlank = /\s/;

/** A superset of the characters of a keyword in both servers. */
const sqlWord = /[\w$\u0080-\uffff]+/y;

/**
 * The first word from a position on, in upper case, after blanks, comments and opening parentheses.
 * @returns null if something else comes first, such as an executable comment, whose words only some versions execute
 */
export function wordAt(sql: string, start: number): { readonly word: string; readonly end: number } | null {
  sqlWord.lastIndex = pastNothing(sql, start, true);
  const word = sqlWord.exec(sql)?.[0];
  return word === undefined ? null : { word: word.toUpperCase(), end: sqlWord.lastIndex };
}

/**
 * The position after blanks and comments that neither server executes (MySQL manual, "Comments"). A statement may consist of
 * millions of them, so each character is read once, without a function call.
 * @param beforeWord true: skips the servers' own blanks, and opening parentheses; false: skips every Unicode blank, and semicolons
 */
export function pastNothing(sql: string, start: number, beforeWord: boolean): number {
  const { length } = sql;
  const alsoPassed = beforeWord ? parenthesis : semicolon;
  let at = start;
  while (at < length) {
    const code = sql.charCodeAt(at);
    if (code === blank || (code >= tab && code <= carriageReturn) || code === alsoPassed) {
      at++;
    } else if (code === hash || (code === hyphen && beginsComment(sql, at, beforeWord))) {
      for (at++; at < length && sql.charCodeAt(at) !== lineFeed; ) at++;
    } else if (code === slash && sql.charCodeAt(at + 1) === asterisk) {
      const mark = sql.charCodeAt(at + 2);
      if (mark === bang || mark === capitalM) return at;
      let end = at + 2;
      while (end < length && !(sql.charCodeAt(end) === asterisk && sql.charCodeAt(end + 1) === slash)) end++;
      if (end >= length) return at;
      at = end + 2;
    } else if (code > lastAscii && !beforeWord && otherBlank.test(String.fromCharCode(code))) {
      at++;
    } else {
      return at;
    }
  }
  return at;
}

/**
 * Whether two hyphens at a position begin a comment, which depends on the character after them.
 * @param beforeWord see `pastNothing`
 */
export function beginsComment(sql: string, at: number, beforeWord: boolean): boolean {
  if (sql.charCodeAt(at + 1) !== hyphen) return false;
  const code = sql.charCodeAt(at + 2);
  if (at + 2 === sql.length || code === blank || (code >= tab && code <= carriageReturn)) return true;
  return !beforeWord && (code === 0 || (code > lastAscii && otherBlank.test(String.fromCharCode(code))));
}
