import type { Param, Params } from '../wire/statement.ts';

/** What a placeholder begins with, or what holds none: quoted text and names, comments, `::`, `:=`. */
const beginning = /['"`#:]|--(?=[\s\0]|$)|\/\*(?!M?!)/g;
const placeholder = /:([A-Za-z_][A-Za-z0-9_]*)/y;
const colons = /:(?::+|=)?/y;

/** A statement with `?` for its placeholders, and their values, in order. */
export interface PositionalStatement {
  readonly sql: string;
  readonly values: readonly Param[];
}

/**
 * Puts `?` for each `:name` (MySQL manual, "String Literals", "Comments"); an executable comment is code. A name may come several times; values that no name asks for are left out. Quoted text is taken
 * to know backslash escapes, and "…" to be quoted, be it a text or a name: under NO_BACKSLASH_ESCAPES, a text that ends in
 * a backslash is taken to go on.
 * @param params values by name; an array is for a statement that has `?` already, which stays as it is
 * @returns the name that has no value, if there is one
 */
export function positional(sql: string, params: Params): PositionalStatement | { readonly missing: string } {
  if (isArray(params)) return { sql, values: params };
  const values: Param[] = [];
  let rewritten = '';
  let copied = 0;
  beginning.lastIndex = 0;
  for (let found = beginning.exec(sql); found !== null; found = beginning.exec(sql)) {
    const at = found.index;
    placeholder.lastIndex = at;
    const name = placeholder.exec(sql)?.[1];
    if (name === undefined) {
      beginning.lastIndex = endOf(sql, at, found[0]);
      continue;
    }
    const value = Object.hasOwn(params, name) ? params[name] : undefined;
    if (value === undefined) return { missing: name };
    rewritten += `${sql.slice(copied, at)}?`;
    values.push(value);
    copied = placeholder.lastIndex;
    beginning.lastIndex = copied;
  }
  return { sql: rewritten + sql.slice(copied), values };
}

/** Where that ends which begins at a place with `mark` and holds no placeholder; what does not end reaches to the end. */
function endOf(sql: string, at: number, mark: string): number {
  switch (mark) {
    case ':':
      colons.lastIndex = at;
      colons.test(sql);
      return colons.lastIndex;
    case "'":
    case '"':
    case '`':
      return endOfQuoted(sql, at, mark);
    case '/*':
      return behind(sql, '*/', at + 2);
    default:
      return behind(sql, '\n', at);
  }
}

/** A quote that is doubled ends one text and begins another, which comes to the same. */
function endOfQuoted(sql: string, at: number, quote: string): number {
  for (let next = at + 1; next < sql.length; next++) {
    if (sql[next] === quote) return next + 1;
    if (sql[next] === '\\' && quote !== '`') next++;
  }
  return sql.length;
}

function behind(sql: string, mark: string, from: number): number {
  const found = sql.indexOf(mark, from);
  return found < 0 ? sql.length : found + mark.length;
}

/** Array.isArray knows no read-only ones. */
function isArray(params: Params): params is readonly Param[] {
  return Array.isArray(params);
}
