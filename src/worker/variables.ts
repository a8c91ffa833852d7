import type { PlainCommand } from './commands.ts';

/**
 * Decides which system variables a client-managed session carries, and builds the commands that set them. The values are text, as
 * the database's session tracker reports them.
 */

/**
 * Set by Sluice, or changed by the server itself (MySQL counts `statement_id`). A client's change is lost at the next reset of the
 * connection.
 */
const notCarried = /^(?:statement_id|character_set_\w+|net_\w+|wait_timeout|interactive_timeout|resultset_metadata)$/;
/** Setting these on another connection does not restore the state, or disturbs Sluice's session tracking. */
const sessionBound =
  /^(?:session_track_\w+|profiling\w*|optimizer_trace\w*|insert_id|identity|timestamp|rand_seed[12])$/;
/** Set by --read_only. Older releases of MariaDB have only the second name. */
const readOnlyVariable = /^(?:transaction|tx)_read_only$/;

/**
 * - `carried`: the variable can be set again on another connection
 * - `not carried`: a client's change is lost at the next reset
 * - `bound`: setting it pins the session
 */
export type VariableKind = 'carried' | 'not carried' | 'bound';

/** @param name in lower case */
export function variableKind(name: string, value: string, readOnly: boolean): VariableKind {
  if (sessionBound.test(name)) return 'bound';
  if (notCarried.test(name) || (readOnly && readOnlyVariable.test(name))) return 'not carried';
  // A collation implies its character set, and only utf8mb4 can represent every text of a statement.
  if (name === 'collation_connection' && !/^utf8mb4_/i.test(value)) return 'not carried';
  return 'carried';
}

const variableName = /^[a-z_][a-z0-9_]*$/;
const number = /^-?[0-9]{1,30}(?:\.[0-9]{1,30})?$/;

/**
 * The commands that set variables of the session, one each, so that a refused one does not affect the others. Invalid names and
 * variables that clients cannot set are omitted.
 * @param variables names, in any case, and values
 */
export function setVariableCommands(
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
