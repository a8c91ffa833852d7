import { type Cause, causes } from '../wire/failures.ts';
import type { WorkerLimits } from '../wire/messages.ts';
import type { ParamsToPack } from '../wire/statement.ts';
import { type BoundStatement, boundBytes } from './commands.ts';
import type { Connection } from './connection.ts';
import type { Execution } from './execution.ts';
import { emptyQuery } from './failures.ts';
import { positional } from './placeholders.ts';

export type ParamLimits = Pick<WorkerLimits, 'paramsBytesMax' | 'paramsMax'>;

/**
 * Has the database prepare a statement, and binds its parameters.
 * @returns instead a cause if the statement is empty or the parameters do not fit it; the prepared statement is closed then
 * @throws DriverError if it cannot be prepared
 */
export async function prepare(
  connection: Connection,
  execution: Execution,
  { params, placeholders: known }: ParamsToPack,
  { paramsBytesMax, paramsMax }: ParamLimits,
): Promise<BoundStatement | Cause> {
  // MySQL's own message for a comment is that it cannot be prepared.
  if (execution.saysNothing) return emptyQuery;
  const statement = positional(execution.sql, params, paramsMax, known);
  if ('missing' in statement) return causes.paramMissing(statement.missing);
  if ('placeholders' in statement) return causes.paramCount(statement.placeholders, Object.keys(params).length);
  if ('tooMany' in statement) return causes.paramsTooMany(paramsMax);
  const { values } = statement;
  // The value of a name is sent once per occurrence.
  if (boundBytes(values) > paramsBytesMax) return causes.paramsTooLarge(paramsBytesMax);
  const { id, placeholders } = await connection.prepare(statement.sql);
  if (placeholders === values.length) return { id, values };
  connection.closeStatement(id);
  return causes.paramCount(placeholders, values.length);
}
