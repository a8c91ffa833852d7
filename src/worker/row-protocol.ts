import type { LargeResults, StatementScope } from '../wire/large-results.ts';
import { effectOfText, firstWordOfText, type SqlText } from '../wire/sql-traits.ts';
import { isSentAlike } from './columns.ts';
import type { BoundStatement } from './commands.ts';
import type { Connection } from './connection.ts';
import { type DriverError, isConnectionLost } from './failures.ts';

/**
 * Chooses the protocol for the rows of a statement without params. A database takes about half the time for rows of the binary
 * protocol, since it does not print their values; but the statement has to be prepared, which takes a round trip. The cells are the
 * same in both, as only columns are read in binary that are sent alike (see `isSentAlike`).
 */

/** From this many rows on, a result is received sooner in binary, with the round trip of preparing it. */
const manyRows = 10_000;

/**
 * Expressions whose value depends on the command before, of which preparing is one, or on when they are resolved: counts of the
 * session, and variables.
 */
const dependsOnCommand = /@|\b(?:row_count|found_rows)\b/i;

const subquery = /\bselect\b.*\bselect\b/is;

/**
 * Whether preparing a statement changes nothing about its result. A long text is sent as it is. MySQL evaluates some subqueries
 * in another way: `JSON_VALID((SELECT MAX(1e0)))` is NULL if it is prepared, and 0 if not.
 */
function mayBePrepared(text: SqlText, isMariadb: boolean): boolean {
  if (text.traits !== undefined || effectOfText(text) !== 'read') return false;
  const word = firstWordOfText(text);
  if (word !== 'SELECT' && word !== 'WITH' && word !== 'TABLE') return false;
  return !dependsOnCommand.test(text.sql) && (isMariadb || !subquery.test(text.sql));
}

/** Chooses for the statements of one connection. */
export class RowProtocol {
  readonly #results: LargeResults;
  readonly #scope: StatementScope;
  readonly #columnsMax: number;
  readonly #isMariadb: boolean;
  /** The statement that runs is expected to have many rows. */
  #isRemembered = false;

  constructor(results: LargeResults, scope: StatementScope, columnsMax: number, isMariadb: boolean) {
    this.#results = results;
    this.#scope = scope;
    this.#columnsMax = columnsMax;
    this.#isMariadb = isMariadb;
  }

  /** @param expectsMany the client has asked for the whole result in one piece */
  wantsBinary(text: SqlText, expectsMany: boolean): boolean {
    // A long text is never remembered, and its digest would take long.
    this.#isRemembered = text.traits === undefined && this.#results.has(this.#scope, text.sql);
    return (this.#isRemembered || expectsMany) && mayBePrepared(text, this.#isMariadb);
  }

  /**
   * Has the database prepare a statement.
   * @returns null if its rows must be read as text
   * @throws DriverError if the connection is lost
   */
  async prepare(connection: Connection, text: SqlText): Promise<BoundStatement | null> {
    const prepared = await connection.prepare(text.sql, this.#columnsMax).catch((error: DriverError) => {
      if (isConnectionLost(error)) throw error;
      // If there is anything wrong with the statement, it fails as text as well, with the database's own message for it.
      return null;
    });
    if (prepared === null) return null;
    const { id, placeholders, warnings, definitions } = prepared;
    // Warnings of preparing would be missing in the count at the end.
    const isPlain = placeholders === 0 && warnings === 0;
    if (isPlain && definitions !== null && definitions.length > 0 && definitions.every(isSentAlike)) {
      return { id, values: [] };
    }
    connection.closeStatement(id);
    this.#forget(text);
    return null;
  }

  /**
   * A statement without params has ended.
   * @param isSentAlike whether all of its columns are
   */
  ended(text: SqlText, rows: number, isSentAlike: boolean): void {
    if (rows < manyRows) this.#forget(text);
    else if (!this.#isRemembered && isSentAlike && mayBePrepared(text, this.#isMariadb))
      this.#results.add(this.#scope, text.sql);
  }

  #forget({ sql }: SqlText): void {
    if (this.#isRemembered) this.#results.delete(this.#scope, sql);
    this.#isRemembered = false;
  }
}
