import { findPlaceholders, type Placeholders } from '../wire/placeholders.ts';
import { isScalar, needPlaceholders, type Param, type Params, type ParamValue } from '../wire/statement.ts';

/** A statement with `?` for its placeholders, and their values, in order. */
export interface PositionalStatement {
  readonly sql: string;
  readonly values: readonly Param[];
}

/** Why values do not fit the placeholders of a statement. */
export type Misfit =
  /** A name without a value. */
  | { readonly missing: string }
  /** The number of placeholders by position, which differs from the number of values. */
  | { readonly placeholders: number }
  /** With lists expanded, there are more placeholders than allowed. */
  | { readonly tooMany: true };

/**
 * Replaces each `:name` by `?`, and a placeholder whose value is a list of two by `?, ?` (see `findPlaceholders`). A name may occur
 * several times. Values without a placeholder are ignored.
 * @param params values by name, or by position; a statement whose values by position contain no list stays as it is
 * @param placeholdersMax with lists expanded
 * @param known the placeholders of the statement; null: not searched for yet
 */
export function positional(
  sql: string,
  params: Params,
  placeholdersMax: number,
  known: Placeholders | null = null,
): PositionalStatement | Misfit {
  if (!needPlaceholders(params)) return { sql, values: params as readonly Param[] };
  const found = known ?? findPlaceholders(sql, !isArray(params), placeholdersMax);
  const values: Param[] = [];
  let rewritten = '';
  let copied = 0;
  for (let index = 0; index < found.length; index += 2) {
    const [at, end] = [found[index] as number, found[index + 1] as number];
    let value: ParamValue | undefined;
    if (isArray(params)) {
      // A placeholder without a value counts too.
      value = params[index / 2] ?? null;
    } else {
      const name = sql.slice(at + 1, end);
      value = Object.hasOwn(params, name) ? params[name] : undefined;
      if (value === undefined) return { missing: name };
    }
    const marks = isScalar(value) ? 1 : value.length;
    if (values.length + marks > placeholdersMax) return { tooMany: true };
    rewritten += `${sql.slice(copied, at)}?${', ?'.repeat(marks - 1)}`;
    if (isScalar(value)) values.push(value);
    else for (const element of value) values.push(element);
    copied = end;
  }
  const placeholders = found.length / 2;
  if (isArray(params) && placeholders !== params.length) return { placeholders };
  return { sql: rewritten + sql.slice(copied), values };
}

/** The type of Array.isArray does not narrow to read-only arrays. */
function isArray(params: Params): params is readonly ParamValue[] {
  return Array.isArray(params);
}
