import { type Login, noSchema, type Refusal } from '../wire/messages.ts';
import { Pipeline } from './commands.ts';
import type { Connection } from './connection.ts';
import { ConnectionReset } from './connection-reset.ts';
import { aliasRefusal, connectRefusal, type DriverError, databaseRefusal } from './failures.ts';

/** A new connection is not used, for a reason other than an error of its commands. */
class NotOpenedError extends Error {
  override readonly name = 'NotOpenedError';
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(refusal.failure.message);
    this.refusal = refusal;
  }
}

/** Why a connection could not be opened, or made ready by `prepareConnection`. */
export function refusalOf(error: unknown): Refusal {
  return error instanceof NotOpenedError ? error.refusal : connectRefusal(error as DriverError);
}

/** The result of `prepareConnection`. */
export interface PreparedConnection {
  readonly reset: ConnectionReset;
  /** The most connections that the database accepts, from all clients. */
  readonly connectionsMax: number;
  /** The most that it accepts from the user; 0: no limit. */
  readonly userConnectionsMax: number;
}

/**
 * Makes a connection that has logged in ready for statements: selects the schema, checks the user's name and makes it clean.
 * @throws Error see `refusalOf`
 */
export async function prepareConnection(
  connection: Connection,
  login: Login,
  readOnly: boolean,
): Promise<PreparedConnection> {
  // Sent ahead of the commands that follow, so that it costs no round trip of its own.
  const names = connection.query('SELECT USER(), CURRENT_USER(), @@max_connections, @@max_user_connections');
  names.catch(() => {});
  const entered = await enterDatabase(connection, login.database).catch(async (error: unknown) => {
    // If init_connect fails, the server answers the first command with that error and closes the connection.
    const first = await names.then(
      () => error,
      (reason: unknown) => reason,
    );
    throw new NotOpenedError(databaseRefusal(first as DriverError));
  });
  const [[user, account, max, userMax] = []] = await names;
  const refusal = aliasRefusal(login.user, [user ?? null, account ?? null]) ?? entered.refusal;
  if (refusal !== null) throw new NotOpenedError(refusal);
  return {
    reset: await ConnectionReset.prepare(connection, entered.database, readOnly),
    connectionsMax: Number(max),
    userConnectionsMax: Math.max(0, Number(userMax)),
  };
}

interface Entered {
  /** The selected schema; null if none is. */
  readonly database: string | null;
  /** Why the schema of the login cannot be selected. */
  readonly refusal: Refusal | null;
}

/**
 * Selects the schema that every statement of the connection starts in.
 * @param database see `Login`
 * @throws DriverError if the connection is lost
 */
async function enterDatabase(connection: Connection, database: string | null): Promise<Entered> {
  if (database === noSchema) return { database: null, refusal: null };
  const name = database ?? 'default';
  const [error = null] = await connection.pipeline(new Pipeline([{ type: 'init db', database: name }]));
  if (error === null) return { database: name, refusal: null };
  if (database !== null) return { database: null, refusal: databaseRefusal(error) };
  // There is no schema `default`, or the user may not enter it: none is selected, as in the native clients. MariaDB would report
  // the error in the warnings of the first statement unless a statement with a table came before. (A reset would clear them
  // too, but then MariaDB no longer counts the connection against MAX_USER_CONNECTIONS.)
  await connection.query('SELECT 1 FROM information_schema.ENGINES WHERE 0');
  return { database: null, refusal: null };
}
