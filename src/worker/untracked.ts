import { firstWordOfText, type SqlText } from '../wire/sql-traits.ts';
import type { OkPacket } from './packets.ts';

/** A system variable without a scope, followed by an equals sign. */
const unscopedVariable = /@@(?!\s*(?:global|session|local)\b)[^=,()@]*=/i;
const encoding = /\bcharacter_set_(?:client|results)\b|\bnames\b|\bcharset\b|\bcharacter\s+set\b/i;

const runsSet = /^(?:SET|CALL|EXECUTE|BEGIN|IF|CASE|LOOP|REPEAT|WHILE|FOR)$/;

/**
 * Whether a statement may have set a system variable as `@@name`. MariaDB's session tracker reports `SET name`, `SET SESSION
 * name` and `SET @@session.name`, but not `SET @@name`, neither as a statement nor in a routine. A long text is assumed to have one
 * if it contains `@@`.
 */
export function setsUnscoped(text: SqlText): boolean {
  const { sql, traits } = text;
  return sql.includes('@@') && mayRunSet(text) && (traits !== undefined || unscopedVariable.test(sql));
}

/** Whether a statement may have changed the encoding of requests or results without the database reporting it. */
export function mayHideEncoding(text: SqlText, changes: OkPacket['changes']): boolean {
  if (!mayRunSet(text) || !encoding.test(text.sql)) return false;
  const isReported = changes?.variables.some(([name]) => /^character_set_(?:client|results)$/.test(name)) === true;
  return !isReported || setsUnscoped(text);
}

/** Decided by the first word. An executable comment may contain any statement. */
function mayRunSet(text: SqlText): boolean {
  const word = firstWordOfText(text);
  return word === null || runsSet.test(word);
}
