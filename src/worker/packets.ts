import { isUtf8 } from 'node:buffer';
import type { Outcome } from '../wire/statement.ts';
import type { ColumnDefinition } from './columns.ts';
import { ServerError } from './failures.ts';

/**
 * Reads the packets that answer a COM_QUERY, except rows (MySQL internals manual, "COM_QUERY Response"). `start` is the
 * first byte of the payload.
 */

const inTransactionFlag = 0x0001;
const moreResultsFlag = 0x0008;
const sessionChangedFlag = 0x4000;
/** The kinds of session change in an OK packet that are used. */
const changeKind = { variable: 0, schema: 1, state: 2, characteristics: 4, transaction: 5 } as const;

/** A cursor over the payload of one packet that reads the protocol's integers and strings. */
class PayloadReader {
  readonly #bytes: Buffer;
  #at: number;

  constructor(bytes: Buffer, start: number) {
    this.#bytes = bytes;
    this.#at = start;
  }

  get at(): number {
    return this.#at;
  }

  skip(bytes: number): void {
    this.#at += bytes;
  }

  uint8(): number {
    return this.#bytes.readUInt8(this.#at++);
  }

  uint16(): number {
    this.#at += 2;
    return this.#bytes.readUInt16LE(this.#at - 2);
  }

  uint32(): number {
    this.#at += 4;
    return this.#bytes.readUInt32LE(this.#at - 4);
  }

  /** A length-encoded integer. */
  integer(): bigint {
    const first = this.uint8();
    if (first < 0xfb) return BigInt(first);
    if (first === 0xfc) return BigInt(this.uint16());
    if (first === 0xfd) {
      this.#at += 3;
      return BigInt(this.#bytes.readUIntLE(this.#at - 3, 3));
    }
    this.#at += 8;
    return this.#bytes.readBigUInt64LE(this.#at - 8);
  }

  /** A length-encoded string. */
  string(): string {
    return this.bytes().toString();
  }

  /** The bytes of a length-encoded string. */
  bytes(): Buffer {
    const length = Number(this.integer());
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  /** @returns its bytes */
  skipString(): number {
    const length = Number(this.integer());
    this.skip(length);
    return length;
  }
}

/** The number of columns in the first packet of a result set. */
export function readColumnCount(bytes: Buffer, start: number): number {
  return Number(new PayloadReader(bytes, start).integer());
}

/**
 * @param extended whether the connection has agreed on MARIADB_CLIENT_EXTENDED_METADATA, which adds a block of
 * `{ id, length-encoded value }` pairs; id 0 names a type that the protocol sends as another (MariaDB manual, "Result
 * Set Packets")
 */
export function readColumnDefinition(bytes: Buffer, start: number, extended: boolean): ColumnDefinition {
  const reader = new PayloadReader(bytes, start);
  const catalogStart = reader.at;
  reader.skipString();
  // "def", in two or four bytes per character if character_set_results is UTF-16, UTF-32 or similar.
  const isWide = bytes.subarray(catalogStart + 1, reader.at).includes(0);
  const schemaBytes = reader.skipString();
  // The table's alias.
  reader.skipString();
  const tableBytes = reader.skipString();
  const nameBytes = reader.bytes();
  const name = nameBytes.toString();
  const originalNameBytes = Number(reader.integer());
  reader.skip(originalNameBytes);
  let typeName = '';
  if (extended) {
    const stop = Number(reader.integer()) + reader.at;
    while (reader.at < stop) {
      const id = reader.uint8();
      const value = reader.string();
      if (id === 0) typeName = value;
    }
  }
  reader.skip(1);
  return {
    name,
    hasUtf8Names: !isWide && isUtf8(nameBytes),
    typeName,
    isExpression: originalNameBytes === 0,
    isStored: schemaBytes > 0 && tableBytes > 0 && originalNameBytes > 0,
    characterSet: reader.uint16(),
    length: reader.uint32(),
    type: reader.uint8(),
    flags: reader.uint16(),
    decimals: reader.uint8(),
  };
}

/** A prepared statement, and the counts of its placeholders, of the columns of its result, and of warnings so far. */
export interface Prepared {
  readonly id: number;
  readonly placeholders: number;
  readonly columns: number;
  readonly warnings: number;
}

/** The first packet of the answer to a successful COM_STMT_PREPARE. */
export function readPrepared(bytes: Buffer, start: number): Prepared {
  const reader = new PayloadReader(bytes, start);
  reader.skip(1);
  const id = reader.uint32();
  const columns = reader.uint16();
  const placeholders = reader.uint16();
  reader.skip(1);
  return { id, columns, placeholders, warnings: reader.uint16() };
}

/** The session changes of a statement, as far as the session tracker is enabled. */
export interface SessionChanges {
  /** System variables and their new values, in the order of the changes. */
  readonly variables: readonly (readonly [name: string, value: string])[];
  /** The newly selected schema, '' for none; null: unchanged. */
  readonly schema: string | null;
  /** The session has changed, possibly in a way that has no field here. */
  readonly state: boolean;
  /** SQL that begins a transaction like the next or the open one; '' for the defaults; null: unchanged. */
  readonly characteristics: string | null;
  /** The state of the transaction (MySQL manual, "session_track_transaction_info"); null: unchanged. */
  readonly transaction: string | null;
}

/** An OK packet, or the EOF packet at the end of rows. */
export interface OkPacket {
  readonly outcome: Outcome;
  readonly moreResults: boolean;
  /**
   * The statement has set character_set_client or character_set_results to another character set than utf8mb4: `names` if it has
   * also set character_set_connection, as SET NAMES does, else `text`.
   */
  readonly leftUtf8: 'names' | 'text' | null;
  /** The statement has changed its session in a way that the session tracker covers. */
  readonly sessionChanged: boolean;
  readonly inTransaction: boolean;
  /** The changes; null: an EOF packet has no field for them, and MySQL reports them with the next OK packet. */
  readonly changes: SessionChanges | null;
}

const noChanges: SessionChanges = {
  variables: [],
  schema: null,
  state: false,
  characteristics: null,
  transaction: null,
};

/** An OK packet: the end of a statement without rows. */
export function readOk(bytes: Buffer, start: number, end: number): OkPacket {
  const reader = new PayloadReader(bytes, start);
  reader.skip(1);
  const affectedRows = reader.integer().toString();
  const lastInsertId = reader.integer();
  const status = reader.uint16();
  const warnings = reader.uint16();
  const changes = (status & sessionChangedFlag) === 0 ? noChanges : readChanges(reader, end);
  return {
    outcome: { affectedRows, lastInsertId: lastInsertId === 0n ? null : lastInsertId.toString(), warnings },
    moreResults: (status & moreResultsFlag) !== 0,
    leftUtf8: leftUtf8(changes),
    sessionChanged: (status & sessionChangedFlag) !== 0,
    inTransaction: (status & inTransactionFlag) !== 0,
    changes,
  };
}

function leftUtf8({ variables }: SessionChanges): OkPacket['leftUtf8'] {
  const left = variables.filter(([name, value]) => name.startsWith('character_set_') && value !== 'utf8mb4');
  const names = left.map(([name]) => name);
  if (!names.includes('character_set_client') && !names.includes('character_set_results')) return null;
  return names.includes('character_set_connection') ? 'names' : 'text';
}

/** The part of an OK packet after its counts (MySQL internals manual, "Session State Information"). */
function readChanges(reader: PayloadReader, packetEnd: number): SessionChanges {
  if (reader.at < packetEnd) reader.skipString();
  if (reader.at >= packetEnd) return noChanges;
  const variables: (readonly [string, string])[] = [];
  let { schema, state, characteristics, transaction } = noChanges;
  const stop = Number(reader.integer()) + reader.at;
  while (reader.at < stop) {
    const kind = reader.uint8();
    const end = Number(reader.integer()) + reader.at;
    if (kind === changeKind.variable) while (reader.at < end) variables.push([reader.string(), reader.string()]);
    else if (kind === changeKind.schema) schema = reader.string();
    else if (kind === changeKind.state) state = true;
    else if (kind === changeKind.characteristics) characteristics = reader.string();
    else if (kind === changeKind.transaction) transaction = reader.string();
    reader.skip(end - reader.at);
  }
  return { variables, schema, state, characteristics, transaction };
}

/** An EOF packet: the end of a result set's rows. */
export function readEof(bytes: Buffer, start: number): OkPacket {
  const reader = new PayloadReader(bytes, start);
  reader.skip(1);
  const warnings = reader.uint16();
  const status = reader.uint16();
  return {
    outcome: { affectedRows: '0', lastInsertId: null, warnings },
    moreResults: (status & moreResultsFlag) !== 0,
    leftUtf8: null,
    sessionChanged: (status & sessionChangedFlag) !== 0,
    inTransaction: (status & inTransactionFlag) !== 0,
    changes: null,
  };
}

/** Whether a packet is the end of the rows and not a row. A row whose first cell has 16 MiB or more begins with the same byte. */
export function isEof(bytes: Buffer, start: number, end: number): boolean {
  return bytes[start] === 0xfe && end - start < 9;
}

export function isError(bytes: Buffer, start: number): boolean {
  return bytes[start] === 0xff;
}

/** An ERR packet: a code, a "#" and the SQLSTATE (not before the login), and the message. */
export function readError(bytes: Buffer, start: number, end: number): ServerError {
  const code = bytes.readUInt16LE(start + 1);
  if (bytes[start + 3] !== 0x23) return new ServerError(code, '', bytes.toString('utf8', start + 3, end));
  return new ServerError(code, bytes.toString('latin1', start + 4, start + 9), bytes.toString('utf8', start + 9, end));
}
