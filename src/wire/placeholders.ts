import { beginsComment } from './words.ts';

/** The positions of the placeholders of a statement, in order: the start and the end of each. */
export type Placeholders = Uint32Array | readonly number[];

const [quotationMark, hash, apostrophe, asterisk, hyphen, slash] = [0x22, 0x23, 0x27, 0x2a, 0x2d, 0x2f];
const [colon, equals, questionMark, backslash, backtick] = [0x3a, 0x3d, 0x3f, 0x5c, 0x60];
const [bang, capitalM] = [0x21, 0x4d];
const lastAscii = 0x7f;

/** 1 for each character that may begin a placeholder, or text without placeholders: quoted text and names, comments, colons. */
const marks = new Uint8Array(lastAscii + 1);
for (const code of [quotationMark, hash, apostrophe, hyphen, slash, colon, questionMark, backtick]) marks[code] = 1;

/**
 * Finds the placeholders of a statement: each `:name`, or each `?` (MySQL manual, "String Literals", "Comments"). An executable
 * comment is code. Quoted text is assumed to have backslash escapes; under NO_BACKSLASH_ESCAPES, a text that ends in a backslash
 * is assumed to continue. "…" is quoted in every sql_mode, as a text or as a name. A statement may have millions of quotes and
 * comments, so each character is read once.
 * @param max the search ends after one more
 */
export function findPlaceholders(sql: string, areNamed: boolean, max: number): number[] {
  const { length } = sql;
  const found: number[] = [];
  let at = 0;
  while (at < length && found.length <= 2 * max) {
    const code = sql.charCodeAt(at);
    if (code > lastAscii || marks[code] === 0) {
      at++;
    } else if (code === apostrophe || code === quotationMark || code === backtick) {
      at = endOfQuoted(sql, at, code);
    } else if (code === questionMark) {
      if (!areNamed) found.push(at, at + 1);
      at++;
    } else if (code === colon) {
      const end = areNamed ? endOfName(sql, at + 1) : at + 1;
      if (end > at + 1) found.push(at, end);
      at = end > at + 1 ? end : endOfColons(sql, at);
    } else if (code === hash || (code === hyphen && beginsComment(sql, at, false))) {
      at = behind(sql, '\n', at);
    } else if (code === slash && sql.charCodeAt(at + 1) === asterisk && !isExecutable(sql, at)) {
      at = endOfComment(sql, at + 2);
    } else {
      at++;
    }
  }
  return found;
}

/** A doubled quote ends one text and begins another, with the same result. */
function endOfQuoted(sql: string, start: number, quote: number): number {
  const { length } = sql;
  for (let at = start + 1; at < length; at++) {
    const code = sql.charCodeAt(at);
    if (code === quote) return at + 1;
    if (code === backslash && quote !== backtick) at++;
  }
  return length;
}

/** The end of a name: letters, digits and underscores, with no digit first. */
function endOfName(sql: string, start: number): number {
  let at = start;
  for (; at < sql.length; at++) {
    const code = sql.charCodeAt(at);
    const isLetter = ((code | 0x20) >= 0x61 && (code | 0x20) <= 0x7a && code <= lastAscii) || code === 0x5f;
    if (!isLetter && !(at > start && code >= 0x30 && code <= 0x39)) break;
  }
  return at;
}

/** The end of one or more colons, or of `:=`. */
function endOfColons(sql: string, start: number): number {
  let at = start + 1;
  if (sql.charCodeAt(at) === equals) return at + 1;
  while (at < sql.length && sql.charCodeAt(at) === colon) at++;
  return at;
}

/** Whether a server executes the comment at a position: it begins with an exclamation mark, for MariaDB also after an M. */
function isExecutable(sql: string, start: number): boolean {
  const mark = sql.charCodeAt(start + 2);
  return mark === bang || (mark === capitalM && sql.charCodeAt(start + 3) === bang);
}

/** A comment without an end reaches to the end of the statement. */
function endOfComment(sql: string, start: number): number {
  const { length } = sql;
  for (let at = start; at < length; at++) {
    if (sql.charCodeAt(at) === asterisk && sql.charCodeAt(at + 1) === slash) return at + 2;
  }
  return length;
}

function behind(sql: string, mark: string, from: number): number {
  const found = sql.indexOf(mark, from);
  return found < 0 ? sql.length : found + mark.length;
}
