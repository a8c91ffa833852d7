import { effectOfText, firstWordOfText, leavesUntracked, type SqlText } from '../wire/sql-traits.ts';
import type { SessionState } from '../wire/statement.ts';
import type { PlainCommand } from './commands.ts';
import type { OkPacket } from './packets.ts';
import { setsUnscoped } from './untracked.ts';
import { type VariableKind, variableKind } from './variables.ts';

/** Has OK packets report the session changes of statements (MySQL manual, "Server Tracking of Client Session State"). */
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
/** Longer statements are not searched for the tables that they drop, since the patterns may read a blank more than once. */
const namesLengthMax = 2_000;
/** A user variable. The session tracker reports only that the session has changed. */
const userVariable = /(?<!@)@(?!@)/;
/** The position of LOCK TABLES in the transaction state of the session tracker. */
const lockPosition = 7;

/**
 * The state of a session since its connection was clean, and whether it can be restored on another connection. It is concluded from
 * the OK packets of all statements, in order, and from the SQL where the database's session tracker does not report a change.
 */
export class PinnedSession {
  readonly #readOnly: boolean;
  readonly #isMariadb: boolean;
  #schema: string | null;
  readonly #variables = new Map<string, string>();
  /** The values that variables were last set to, or were reported to have. */
  readonly #known = new Map<string, string>();
  #inTransaction = false;
  #isLocked = false;
  /** SET TRANSACTION was run for the next transaction. */
  #isTransactionSet = false;
  /** While autocommit is off, any statement may begin a transaction. */
  #isAutocommitOff = false;
  /** The names of temporary tables, with their schemas. */
  readonly #temporaryTables = new Set<string>();
  /** There is state that no other field has, and that cannot be restored. */
  #hasOtherState = false;
  /** See `SessionState.isChanged`. */
  #isChanged = false;

  /** @param schema the selected schema; null if none is */
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
      isPinned: this.isPinned,
      isChanged: this.#isChanged,
    };
  }

  get isPinned(): boolean {
    return (
      this.#isInTransaction ||
      this.#isTransactionSet ||
      this.#isAutocommitOff ||
      this.#temporaryTables.size > 0 ||
      this.#hasOtherState
    );
  }

  /** A transaction is open, or tables are locked. */
  get #isInTransaction(): boolean {
    return this.#inTransaction || this.#isLocked;
  }

  /**
   * A statement is about to be sent.
   * @param variables to set for the statement
   * @returns those that the session may not have yet. Setting the others again could clear state of the previous statement, such as
   * its warnings
   */
  begin(variables: { readonly [name: string]: string }): (readonly [name: string, value: string])[] {
    const unset = Object.entries(variables).filter(([name, value]) => this.#known.get(name.toLowerCase()) !== value);
    for (const [name, value] of unset) this.#known.set(name.toLowerCase(), value);
    return unset;
  }

  /** The last variables may not have been set; the next statement sets them again. */
  forgetVariables(): void {
    this.#known.clear();
  }

  /** A command of ours has succeeded. */
  commandEnded(packet: OkPacket): void {
    this.#apply(packet);
  }

  /**
   * Whether the end of a statement does not report its session changes: an error packet never does, and an EOF packet does not
   * in MySQL. MySQL reports them with the next OK packet.
   */
  static mustAsk(packet: OkPacket | null): boolean {
    return packet === null || packet.changes === null;
  }

  /**
   * A statement has ended.
   * @param packet its own; null if it has failed
   * @param followUp the packet of a command after it; null if there was none
   */
  statementEnded(text: SqlText, packet: OkPacket | null, followUp: OkPacket | null): void {
    const { sql, traits } = text;
    const packets = [packet, followUp].filter((one) => one !== null);
    const [schema, wasInTransaction, wasPinned] = [this.#schema, this.#isInTransaction, this.isPinned];
    this.#isChanged = false;
    // MariaDB's EOF packet flags only that the session changed; inside a transaction the flag is always set.
    if (packet?.changes === null && packet.sessionChanged) {
      if (!packet.inTransaction && !this.#isTransactionSet) this.#hasOtherState = true;
      this.#isTransactionSet = false;
    }
    const kinds = packets.flatMap((one) => this.#apply(one));
    const isChanged = packets.some(({ changes }) => changes?.state === true);
    const isOfTables = packet !== null && this.#followTables(text, schema);
    const isUntracked = packet !== null && !isOfTables && (traits?.leavesUntracked ?? leavesUntracked(sql));
    if (isUntracked || kinds.includes('bound')) this.#hasOtherState = true;
    if (packet !== null && this.#isMariadb && setsUnscoped(text)) this.#hasOtherState = true;
    if (isChanged && !isOfTables && !(kinds.length > 0 && isExplained(text))) this.#hasOtherState = true;
    if (schema !== this.#schema || wasInTransaction !== this.#isInTransaction || wasPinned !== this.isPinned) {
      this.#isChanged = true;
    }
  }

  /**
   * Follows the temporary tables by the text of a statement that has succeeded, since neither server reports them. If a dropped
   * table is missed, the session is only held unnecessarily.
   * @param schema the schema that was selected before the statement
   * @returns whether creating or dropping tables is the only effect of the statement on its session
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
    // The names of the tables may have changed.
    if (this.#temporaryTables.size > 0 && mayRename(text)) this.#hasOtherState = true;
    return false;
  }

  /** @returns the kinds of the changes that the packet names */
  #apply({ inTransaction, changes }: OkPacket): VariableKind[] {
    this.#inTransaction = inTransaction;
    if (changes === null) return [];
    const kinds: VariableKind[] = [];
    if (changes.schema !== null) {
      this.#schema = changes.schema === '' ? null : changes.schema;
      kinds.push('carried');
    }
    if (changes.transaction !== null) this.#isLocked = changes.transaction[lockPosition] === 'L';
    if (changes.characteristics !== null) this.#isTransactionSet = /^SET TRANSACTION/.test(changes.characteristics);
    // SET NAMES sets the collation too, which is not reported. A collation that was set before must not be restored.
    const names = changes.variables.map(([name]) => name);
    const isCollationHidden = names.includes('character_set_connection') && !names.includes('collation_connection');
    if (isCollationHidden && this.#variables.has('collation_connection')) this.#hasOtherState = true;
    for (const [name, value] of changes.variables) {
      // MySQL changes it with every statement.
      if (name === 'statement_id') continue;
      const kind = variableKind(name, value, this.#readOnly);
      kinds.push(kind);
      if (kind !== 'carried') continue;
      if (this.#known.get(name) !== value) this.#isChanged = true;
      if (name === 'autocommit') this.#isAutocommitOff = value === 'OFF';
      this.#variables.set(name, value);
      this.#known.set(name, value);
    }
    return kinds;
  }
}

/**
 * A key for a table: its schema and name. The key is case-sensitive. If names are not case-sensitive in the database, a dropped
 * table may be missed, but never a created one.
 */
function qualified(name: string, schema: string | null): string | null {
  const parts = [...name.matchAll(new RegExp(identifier, 'g'))].map(([part]) =>
    part.startsWith('`') ? part.slice(1, -1).replaceAll('``', '`') : part,
  );
  const [first = '', second] = parts;
  if (second === undefined) return schema === null ? null : JSON.stringify([schema, first]);
  return JSON.stringify([first, second]);
}

/** Whether a statement cannot have changed its session beyond the changes that OK packets name. */
function isExplained(text: SqlText): boolean {
  const word = firstWordOfText(text);
  if (word === 'SET') return effectOfText(text) !== 'compound' && !userVariable.test(text.sql);
  return word === 'USE' || word === 'DROP';
}

function mayRename(text: SqlText): boolean {
  if (effectOfText(text) === 'compound') return true;
  return /^(?:ALTER|RENAME)$/.test(firstWordOfText(text) ?? '') && /\brename\b/i.test(text.sql);
}
