import type { Param, Params, ParamValue } from '../wire/statement.ts';

/** Where a named placeholder begins, or something that contains none: quoted text and names, comments, `::`, `:=`. */
const namedOrOpaque = /['"`#:]|--(?=[\s\0]|$)|\/\*(?!M?!)/g;
/** The same for placeholders by position. */
const positionalOrOpaque = /['"`#?]|--(?=[\s\0]|$)|\/\*(?!M?!)/g;
const name = /:([A-Za-z_][A-Za-z0-9_]*)/y;
const colons = /:(?::+|=)?/y;

/** A statement with `?` for its placeholders, and their values, in order. */
export interface PositionalStatement {
  readonly sql: string;
  readonly values: readonly Param[];
}

/** Why values do not fit the placeholders of a statement. */
export type Misfit =
  /** The name that has no value. */
  | { readonly missing: string }
  /** Placeholders by position in the statement, as many as there are not values for. */
  | { readonly placeholders: number }
  /** With their lists expanded, there are more placeholders than allowed. */
  | { readonly tooMany: true };

/**
 * Puts `?` for each `:name`, and `?, ?` for a placeholder whose value is a list of two (MySQL manual, "String Literals",
 * "Comments"). An executable comment is code. A name may occur several times, and values without a placeholder are left out.
 * Quoted text is taken to know backslash escapes, and "…" to be quoted, as a text or as a name: under NO_BACKSLASH_ESCAPES, a
 * text that ends in a backslash is taken to go on.
 * @param params values by name, or by position; a statement whose values by position contain no list stays as it is
 * @param placeholdersMax with lists expanded
 */
export function positional(sql: string, params: Params, placeholdersMax: number): PositionalStatement | Misfit {
  if (!isArray(params)) {
    return expanded(sql, namedOrOpaque, placeholdersMax, (at) => {
      name.lastIndex = at;
      const found = name.exec(sql)?.[1];
      if (found === undefined) return null;
      const value = Object.hasOwn(params, found) ? params[found] : undefined;
      return value === undefined ? { missing: found } : { value, end: name.lastIndex };
    });
  }
  if (params.every(isScalar)) return { sql, values: params };
  let placeholders = 0;
  const statement = expanded(sql, positionalOrOpaque, placeholdersMax, (at) => {
    if (sql[at] !== '?') return null;
    // A placeholder without a value is counted all the same.
    return { value: params[placeholders++] ?? null, end: at + 1 };
  });
  return 'sql' in statement && placeholders !== params.length ? { placeholders } : statement;
}

/** @param find the value for the placeholder that begins at a place, and where that ends; null if none begins there */
function expanded(
  sql: string,
  beginning: RegExp,
  placeholdersMax: number,
  find: (at: number) => { readonly value: ParamValue; readonly end: number } | { readonly missing: string } | null,
): PositionalStatement | Misfit {
  const values: Param[] = [];
  let rewritten = '';
  let copied = 0;
  beginning.lastIndex = 0;
  for (let found = beginning.exec(sql); found !== null; found = beginning.exec(sql)) {
    const at = found.index;
    const placeholder = find(at);
    if (placeholder === null) {
      beginning.lastIndex = endOf(sql, at, found[0]);
      continue;
    }
    if ('missing' in placeholder) return placeholder;
    const { value, end } = placeholder;
    const marks = isScalar(value) ? 1 : value.length;
    if (values.length + marks > placeholdersMax) return { tooMany: true };
    rewritten += `${sql.slice(copied, at)}?${', ?'.repeat(marks - 1)}`;
    if (isScalar(value)) values.push(value);
    else for (const element of value) values.push(element);
    copied = end;
    beginning.lastIndex = end;
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
function isArray(params: Params): params is readonly ParamValue[] {
  return Array.isArray(params);
}

function isScalar(value: ParamValue): value is Param {
  return typeof value !== 'object' || value === null;
}
