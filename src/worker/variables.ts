import type { PlainCommand } from './commands.ts';

/**
 * System variables that clients carry from statement to statement: which ones are set for a client and reported to it, and how. The
 * values are text, as the database's session tracker reports them.
 */

/** Set by Sluice for the connection. A change by a client lasts for its statement only. */
const ours = /^(?:statement_id|character_set_\w+|net_\w+|wait_timeout|interactive_timeout|resultset_metadata)$/;
/** Setting these to the same value again has another effect, so they can only be kept with their session. */
const unrepeatable =
  /^(?:session_track_\w+|profiling\w*|optimizer_trace\w*|insert_id|identity|timestamp|rand_seed[12])$/;
/** Set by --read_only. Older releases of MariaDB have only the second name. */
const ofTransaction = /^(?:transaction|tx)_read_only$/;

/**
 * - `carried`: the variable can be set again on another connection
 * - `ours`: clients cannot change it
 * - `bound`: it is bound to its session
 */
export type VariableKind = 'carried' | 'ours' | 'bound';

/** @param name in lower case */
export function variableKind(name: string, value: string, readOnly: boolean): VariableKind {
  if (unrepeatable.test(name)) return 'bound';
  if (ours.test(name) || (readOnly && ofTransaction.test(name))) return 'ours';
  // A collation implies its character set, and only utf8mb4 can represent every text of a statement.
  if (name === 'collation_connection' && !/^utf8mb4_/i.test(value)) return 'ours';
  return 'carried';
}

const variableName = /^[a-z_][a-z0-9_]*$/;
const number = /^-?[0-9]{1,30}(?:\.[0-9]{1,30})?$/;

/**
 * The commands that set variables of the session, one each, so that a refused one does not affect the others. Invalid names and
 * variables that clients cannot set are omitted.
 * @param variables names, in any case, and values
 */
export function setVariables(
  variables: Iterable<readonly [name: string, value: string]>,
  readOnly: boolean,
): PlainCommand[] {
  const commands: PlainCommand[] = [];
  for (const [anyCaseName, value] of variables) {
    const name = anyCaseName.toLowerCase();
    if (!variableName.test(name) || variableKind(name, value, readOnly) !== 'carried') continue;
    // The meaning of quotes and backslashes depends on sql_mode; hexadecimal literals and backticks mean the same in each.
    const text = number.test(value) ? value : `CONVERT(X'${Buffer.from(value).toString('hex')}' USING utf8mb4)`;
    commands.push({ type: 'query', sql: `SET @@SESSION.\`${name}\` = ${text}` });
  }
  return commands;
}
