import { wordAt } from '../wire/words.ts';
import type { Ending } from './packets.ts';

/** A system variable without a scope, and an equals sign behind it. */
const unscopedVariable = /@@(?!\s*(?:global|session|local)\b)[^=,()@]*=/i;
const encoding = /\bcharacter_set_(?:client|results)\b|\bnames\b|\bcharset\b|\bcharacter\s+set\b/i;

const runsSet = /^(?:SET|CALL|EXECUTE|BEGIN|IF|CASE|LOOP|REPEAT|WHILE|FOR)$/;

/**
 * Whether a statement may have set a system variable as `@@name`. MariaDB's session tracker reports `SET name`, `SET SESSION
 * name` and `SET @@session.name`, and nothing of `SET @@name`, alone or in a routine.
 */
export function setsUnscoped(sql: string): boolean {
  return sql.includes('@@') && mayRunSet(sql) && unscopedVariable.test(sql);
}

/** Whether a statement may have changed the encoding of requests or results without the database reporting it. */
export function mayHideEncoding(sql: string, changes: Ending['changes']): boolean {
  if (!mayRunSet(sql) || !encoding.test(sql)) return false;
  const isReported = changes?.variables.some(([name]) => /^character_set_(?:client|results)$/.test(name)) === true;
  return !isReported || setsUnscoped(sql);
}

/** By its first word; an executable comment may hold any. */
function mayRunSet(sql: string): boolean {
  const word = wordAt(sql, 0)?.word;
  return word === undefined || runsSet.test(word);
}
