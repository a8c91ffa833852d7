import { beginsComment } from './words.ts';

/** Where the placeholders of a statement are, in order: for each, where it begins and where it ends. */
export type Placeholders = Uint32Array | readonly number[];

const [quotationMark, hash, apostrophe, asterisk, hyphen, slash] = [0x22, 0x23, 0x27, 0x2a, 0x2d, 0x2f];
const [colon, equals, questionMark, backslash, backtick] = [0x3a, 0x3d, 0x3f, 0x5c, 0x60];
const [bang, capitalM] = [0x21, 0x4d];
const lastAscii = 0x7f;

/** 1 for each character where a placeholder may begin, or something that holds none: quoted text and names, comments, colons. */
const marks = new Uint8Array(lastAscii + 1);
for (const code of [quotationMark, hash, apostrophe, hyphen, slash, colon, questionMark, backtick]) marks[code] = 1;

/**
 * Finds the placeholders of a statement: each `:name`, or each `?` (MySQL manual, "String Literals", "Comments"). An executable
 * comment is code. Quoted text is taken to know backslash escapes, and "…" to be quoted, as a text or as a name: under
 * NO_BACKSLASH_ESCAPES, a text that ends in a backslash is taken to go on. A statement may have millions of quotes and comments,
 * so this looks at each character once.
 * @param max with one more, the search ends
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

/** A quote that is doubled ends one text and begins another, which comes to the same. */
function endOfQuoted(sql: string, start: number, quote: number): number {
  const { length } = sql;
  for (let at = start + 1; at < length; at++) {
    const code = sql.charCodeAt(at);
    if (code === quote) return at + 1;
    if (code === backslash && quote !== backtick) at++;
  }
  return length;
}

/** Where a name ends: letters, digits and underscores, with no digit first. */
function endOfName(sql: string, start: number): number {
  let at = start;
  for (; at < sql.length; at++) {
    const code = sql.charCodeAt(at);
    const isLetter = ((code | 0x20) >= 0x61 && (code | 0x20) <= 0x7a && code <= lastAscii) || code === 0x5f;
    if (!isLetter && !(at > start && code >= 0x30 && code <= 0x39)) break;
  }
  return at;
}

/** Where `:`, `::` or more of them, or `:=` ends. */
function endOfColons(sql: string, start: number): number {
  let at = start + 1;
  if (sql.charCodeAt(at) === equals) return at + 1;
  while (at < sql.length && sql.charCodeAt(at) === colon) at++;
  return at;
}

/** Whether the comment at a place is one that a server executes: it begins with an exclamation mark, for MariaDB perhaps after M. */
function isExecutable(sql: string, start: number): boolean {
  const mark = sql.charCodeAt(start + 2);
  return mark === bang || (mark === capitalM && sql.charCodeAt(start + 3) === bang);
}

/** What does not end reaches to the end. */
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
