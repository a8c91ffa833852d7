import { effectOfText, firstWordOfText, leavesUntracked, type SqlText } from '../wire/sql-traits.ts';
import type { SessionState } from '../wire/statement.ts';
import type { PlainCommand } from './commands.ts';
import type { OkPacket } from './packets.ts';
import { setsUnscoped } from './untracked.ts';
import { fateOf } from './variables.ts';

/** Makes the ends of statements tell what they have changed in the session (MySQL manual, "Server Tracking of Client Session State"). */
export const track: PlainCommand = {
  type: 'query',
  sql:
    'SET session_track_state_change = 1, session_track_schema = 1, ' +
    "session_track_system_variables = '*', session_track_transaction_info = 'CHARACTERISTICS'",
};

const identifier = '(?:`(?:[^`]|``)+`|[\\w$\\u0080-\\uffff]+)';
const tableName = `${identifier}(?:\\s*\\.\\s*${identifier})?`;
const createTemporaryTable = new RegExp(
  `^\\s*create\\s+(?:or\\s+replace\\s+)?temporary\\s+table\\s+(?:if\\s+not\\s+exists\\s+)?(${tableName})`,
  'i',
);
const dropTables = new RegExp(
  `^\\s*drop\\s+(?:temporary\\s+)?tables?\\s+(?:if\\s+exists\\s+)?(${tableName}(?:\\s*,\\s*${tableName})*)\\s*;?$`,
  'i',
);
/** Longer statements are not searched for the tables that they drop: the patterns may look at a blank more than once. */
const namesLengthMax = 2_000;
/** A user variable. Of it the tracker tells no more than that something has changed. */
const userVariable = /(?<!@)@(?!@)/;
/** Where the state of the transaction tells of LOCK TABLES. */
const lockPlace = 7;

/**
 * What the statements on a lease have made of its session since it was as new, as far as the database's tracker tells. It is
 * told of what ends on the connection, in order.
 */
export class HeldSession {
  readonly #readOnly: boolean;
  readonly #isMariadb: boolean;
  #schema: string | null;
  readonly #variables = new Map<string, string>();
  /** The values that variables were last asked to have, or are known to have. */
  readonly #known = new Map<string, string>();
  #inTransaction = false;
  #isLocked = false;
  /** SET TRANSACTION was run for the transaction to come. */
  #isTransactionSet = false;
  /** While autocommit is off, any statement may begin a transaction. */
  #isAutocommitOff = false;
  /** Temporary tables whose names are known, with their schemas. */
  readonly #temporaryTables = new Set<string>();
  #hasMore = false;
  /** The last statement has changed the session itself, not the variables that were set before it. */
  #isChanged = false;

  /** @param schema that is selected; null if none is */
  constructor(schema: string | null, readOnly: boolean, isMariadb: boolean) {
    this.#schema = schema;
    this.#readOnly = readOnly;
    this.#isMariadb = isMariadb;
  }

  get state(): SessionState {
    return {
      schema: this.#schema,
      variables: Object.fromEntries(this.#variables),
      inTransaction: this.#isInTransaction,
      isHeld: this.isHeld,
      isChanged: this.#isChanged,
    };
  }

  get isHeld(): boolean {
    return (
      this.#isInTransaction ||
      this.#isTransactionSet ||
      this.#isAutocommitOff ||
      this.#temporaryTables.size > 0 ||
      this.#hasMore
    );
  }

  /** A transaction is open, or tables are locked. */
  get #isInTransaction(): boolean {
    return this.#inTransaction || this.#isLocked;
  }

  /**
   * A statement is to be sent.
   * @param variables that it asks for
   * @returns those of them that the session may not have yet: to set others again could lose what the session knows of the
   * statement before, such as its warnings
   */
  begin(variables: { readonly [name: string]: string }): (readonly [name: string, value: string])[] {
    const unset = Object.entries(variables).filter(([name, value]) => this.#known.get(name.toLowerCase()) !== value);
    for (const [name, value] of unset) this.#known.set(name.toLowerCase(), value);
    return unset;
  }

  /** What variables were asked to be, they may not have become: they are to be set whenever they are asked for again. */
  forgetVariables(): void {
    this.#known.clear();
  }

  /** A command of ours has ended. */
  prepared(ending: OkPacket): void {
    this.#take(ending);
  }

  /**
   * Whether the end of a statement leaves open what it has left: neither an error nor, of MySQL, the end of rows tells. MySQL
   * then tells it with the next end that can.
   */
  static mustAsk(ending: OkPacket | null): boolean {
    return ending === null || ending.changes === null;
  }

  /**
   * A statement has ended.
   * @param ending its own; null if it has failed
   * @param after that of a command behind it; null if there was none
   */
  ended(text: SqlText, ending: OkPacket | null, after: OkPacket | null): void {
    const { sql, traits } = text;
    const endings = [ending, after].filter((one) => one !== null);
    const [schema, wasInTransaction, wasHeld] = [this.#schema, this.#isInTransaction, this.isHeld];
    this.#isChanged = false;
    // At the end of rows MariaDB tells that there is a change, and not which. In transactions it always does.
    if (ending?.changes === null && ending.sessionChanged) {
      if (!ending.inTransaction && !this.#isTransactionSet) this.#hasMore = true;
      this.#isTransactionSet = false;
    }
    const fates = endings.flatMap((one) => this.#take(one));
    const isChanged = endings.some(({ changes }) => changes?.state === true);
    const isOfTables = ending !== null && this.#followTables(text, schema);
    const isUntracked = ending !== null && !isOfTables && (traits?.leavesUntracked ?? leavesUntracked(sql));
    if (isUntracked || fates.includes('bound')) this.#hasMore = true;
    if (ending !== null && this.#isMariadb && setsUnscoped(text)) this.#hasMore = true;
    if (isChanged && !isOfTables && !(fates.length > 0 && isExplained(text))) this.#hasMore = true;
    if (schema !== this.#schema || wasInTransaction !== this.#isInTransaction || wasHeld !== this.isHeld) {
      this.#isChanged = true;
    }
  }

  /**
   * Follows the temporary tables by the text of a statement that has succeeded, as neither server reports which there are.
   * A table may be missed here only in a way that keeps the session held.
   * @param schema the one that was selected before the statement
   * @returns whether creating or dropping tables is all that the statement does to its session
   */
  #followTables(text: SqlText, schema: string | null): boolean {
    const { sql } = text;
    const created = createTemporaryTable.exec(sql.slice(0, namesLengthMax));
    if (created?.[1] !== undefined) {
      const name = qualified(created[1], schema);
      if (name === null || leavesUntracked(sql.slice(created[0].length))) return false;
      this.#temporaryTables.add(name);
      return true;
    }
    const dropped = sql.length > namesLengthMax ? undefined : dropTables.exec(sql.trimEnd())?.[1];
    if (dropped !== undefined) {
      for (const [name] of dropped.matchAll(new RegExp(tableName, 'g'))) {
        const known = qualified(name, schema);
        if (known !== null) this.#temporaryTables.delete(known);
      }
      return true;
    }
    // From now on the names may not be right any more.
    if (this.#temporaryTables.size > 0 && mayRename(text)) this.#hasMore = true;
    return false;
  }

  /** @returns what may become of each change that has a name */
  #take({ inTransaction, changes }: OkPacket): ('carried' | 'ours' | 'bound')[] {
    this.#inTransaction = inTransaction;
    if (changes === null) return [];
    const fates: ('carried' | 'ours' | 'bound')[] = [];
    if (changes.schema !== null) {
      this.#schema = changes.schema === '' ? null : changes.schema;
      fates.push('carried');
    }
    if (changes.transaction !== null) this.#isLocked = changes.transaction[lockPlace] === 'L';
    if (changes.characteristics !== null) this.#isTransactionSet = /^SET TRANSACTION/.test(changes.characteristics);
    // SET NAMES sets the collation too, which is not reported: one that was set before is not to be set again.
    const names = changes.variables.map(([name]) => name);
    const isCollationHidden = names.includes('character_set_connection') && !names.includes('collation_connection');
    if (isCollationHidden && this.#variables.has('collation_connection')) this.#hasMore = true;
    for (const [name, value] of changes.variables) {
      // MySQL changes it with every statement.
      if (name === 'statement_id') continue;
      const fate = fateOf(name, value, this.#readOnly);
      fates.push(fate);
      if (fate !== 'carried') continue;
      if (this.#known.get(name) !== value) this.#isChanged = true;
      if (name === 'autocommit') this.#isAutocommitOff = value === 'OFF';
      this.#variables.set(name, value);
      this.#known.set(name, value);
    }
    return fates;
  }
}

/**
 * The name of a table with its schema, as a key. Case counts: where it does not count to the database, a table may be missed
 * when it is dropped, never when it is created.
 */
function qualified(name: string, schema: string | null): string | null {
  const parts = [...name.matchAll(new RegExp(identifier, 'g'))].map(([part]) =>
    part.startsWith('`') ? part.slice(1, -1).replaceAll('``', '`') : part,
  );
  const [first = '', second] = parts;
  if (second === undefined) return schema === null ? null : JSON.stringify([schema, first]);
  return JSON.stringify([first, second]);
}

/** Whether a statement cannot have changed more of its session than what has a name. */
function isExplained(text: SqlText): boolean {
  const word = firstWordOfText(text);
  if (word === 'SET') return effectOfText(text) !== 'compound' && !userVariable.test(text.sql);
  return word === 'USE' || word === 'DROP';
}

function mayRename(text: SqlText): boolean {
  if (effectOfText(text) === 'compound') return true;
  return /^(?:ALTER|RENAME)$/.test(firstWordOfText(text) ?? '') && /\brename\b/i.test(text.sql);
}
