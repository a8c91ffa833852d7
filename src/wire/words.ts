/** What may stand before a word, one run at a time (MySQL manual, "Comments"). What is no blank to the server is none here. */
const nothing = /[ \t\n\v\f\r(]+|#[^\n]*|--(?=[ \t\n\v\f\r]|$)[^\n]*|\/\*(?![!M])[\s\S]*?\*\//y;
/** All that the server may take as part of one word: more of it makes no keyword. */
const sqlWord = /[\w$\u0080-\uffff]+/y;

/**
 * The word at or behind a place, in upper case, past blanks, comments and opening parentheses.
 * @returns null if something else comes first, such as an executable comment, which holds words for some versions only
 */
export function wordAt(sql: string, start: number): { readonly word: string; readonly end: number } | null {
  let at = start;
  for (nothing.lastIndex = at; nothing.test(sql); at = nothing.lastIndex);
  sqlWord.lastIndex = at;
  const word = sqlWord.exec(sql)?.[0];
  return word === undefined ? null : { word: word.toUpperCase(), end: sqlWord.lastIndex };
}
