import type { PlainCommand } from './commands.ts';

/**
 * System variables that clients carry from statement to statement: which of them are set for a client and told to it, and
 * how. The values are texts, as the database's own tracker of sessions tells them.
 */

/** What the connection itself lives by: whatever a client has of them does not leave its statement. */
const ours = /^(?:statement_id|character_set_\w+|net_\w+|wait_timeout|interactive_timeout|resultset_metadata)$/;
/** What means something else when it is set again: it can only be kept with its session. */
const unrepeatable =
  /^(?:session_track_\w+|profiling\w*|optimizer_trace\w*|insert_id|identity|timestamp|rand_seed[12])$/;
/** With --read_only, what every transaction is to be; MariaDB has known it by the second name alone. */
const ofTransaction = /^(?:transaction|tx)_read_only$/;

/**
 * What may become of a variable that has a value: `carried`: it can be set again elsewhere; `ours`: it is not for clients to
 * change; `bound`: it belongs to its session.
 * @param name in lower case
 */
export function fateOf(name: string, value: string, readOnly: boolean): 'carried' | 'ours' | 'bound' {
  if (unrepeatable.test(name)) return 'bound';
  if (ours.test(name) || (readOnly && ofTransaction.test(name))) return 'ours';
  // It brings its character set with it, and another one cannot hold every text that a statement may have.
  if (name === 'collation_connection' && !/^utf8mb4_/i.test(value)) return 'ours';
  return 'carried';
}

const variableName = /^[a-z_][a-z0-9_]*$/;
const number = /^-?[0-9]{1,30}(?:\.[0-9]{1,30})?$/;

/**
 * The commands that set variables of the session, each by itself, so that one that is refused is of no matter to the others.
 * What is no name, and what is not for clients to set, is left out.
 * @param variables names, in any case, and values
 */
export function setVariables(
  variables: Iterable<readonly [name: string, value: string]>,
  readOnly: boolean,
): PlainCommand[] {
  const commands: PlainCommand[] = [];
  for (const [anyCaseName, value] of variables) {
    const name = anyCaseName.toLowerCase();
    if (!variableName.test(name) || fateOf(name, value, readOnly) !== 'carried') continue;
    // Quotes and backslashes mean what sql_mode says, but hexadecimal digits are the same in each. Backticks are always a name's.
    const text = number.test(value) ? value : `CONVERT(X'${Buffer.from(value).toString('hex')}' USING utf8mb4)`;
    commands.push({ type: 'query', sql: `SET @@SESSION.\`${name}\` = ${text}` });
  }
  return commands;
}
