import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import type { Test } from 'tap';
import type { ServiceEvent } from '#src/events.js';
import { newQueryId } from '#src/ids.js';
import { Buffers } from '#src/query/buffers.js';
import { Query } from '#src/query/query.js';
import type { KeptResult } from '#src/results/kept-result.js';
import { KeptResults, type NewResult } from '#src/results/kept-results.js';
import { ResultReader } from '#src/results/result-reader.js';
import { indexRecord, type KeptBatch } from '#src/wire/kept-rows.js';
import type { Column } from '#src/wire/statement.js';

export const columns: readonly Column[] = [{ name: 'a', type: { name: 'Int32' }, nullable: false }];

/** A folder of kept results, and the servers that have it, one after the other or at once. */
export class Place {
  readonly folder: string;
  readonly events: ServiceEvent[] = [];
  /** Of the servers. */
  database = '127.0.0.1:3306';
  /** Whether there is memory for pages. */
  hasRoom = true;
  readonly #readers: ResultReader[] = [];

  constructor(t: Test) {
    this.folder = mkdtempSync(join(tmpdir(), 'results-'));
    t.teardown(async () => {
      for (const reader of this.#readers) await reader[Symbol.asyncDispose]();
      rmSync(this.folder, { recursive: true, force: true });
    });
  }

  open(): KeptResults {
    const observe = (event: ServiceEvent): void => void this.events.push(event);
    const reader = new ResultReader(() => this.hasRoom, observe);
    this.#readers.push(reader);
    const bytes = { max: 1024 ** 3, perUserMax: 1024 ** 3 };
    const options = {
      folder: this.folder,
      database: this.database,
      bytes,
      count: { max: 100, perUserMax: 100 },
      logSql: false,
    };
    return new KeptResults(options, reader, observe);
  }

  /** The reasons of the events of a type. */
  reasons(type: 'kept_result_failed' | 'kept_result_dropped'): string[] {
    return this.events.flatMap((event) => (event.type === type ? [event.reason] : []));
  }

  pathOf({ folder }: KeptResult, name: string): string {
    return join(folder, name);
  }
}

export function newResult(more: Partial<NewResult> = {}): NewResult {
  return {
    id: newQueryId(),
    user: 'ann',
    sessionId: 's',
    sql: null,
    effect: 'read',
    isStandalone: true,
    keepMs: 600_000,
    pages: { rows: 10, format: 'json' },
    ...more,
  };
}

/** The query of a result that runs. */
export function queryOf(result: KeptResult): Query {
  const { id, user, sessionId } = result.manifest;
  const identity = { id, owner: user, sessionId, isKept: true } as const;
  const pages = { pageRows: 10, readyRows: 10, pageBytes: 1_000, bufferRows: 10, format: 'json' } as const;
  const limits = { ...pages, waitMs: 0, gzipLevel: 0, timeoutMs: 1_000, isTimeoutAsked: false };
  const buffers = new Buffers({ bufferBytesMax: 1_000_000, resultsBytesMax: 1_000_000, queryBufferBytesMax: 1_000 });
  return new Query(identity, limits, buffers, null, result);
}

/** Writes batches of rows as the worker does: `count` rows of one integer in each, in the text protocol. */
export function writeRows(result: KeptResult, count: number, batches = 1): KeptBatch {
  const packet = Buffer.from([2, 0, 0, 0, 1, 0x37]);
  const bytes = Buffer.alloc(Math.ceil((packet.length * count) / 4) * 4 + 4 * count);
  for (let row = 0; row < count; row++) {
    packet.copy(bytes, row * packet.length);
    bytes.writeUInt32LE((row + 1) * packet.length, Math.ceil((packet.length * count) / 4) * 4 + 4 * row);
  }
  const length = packet.length * count;
  const batch = { rows: count, length, bytes: bytes.length, textBytes: 4 * count, crc: crc32(bytes) };
  const definition = {
    name: 'a',
    hasUtf8Names: true,
    type: 3,
    typeName: '',
    isExpression: false,
    isStored: true,
    characterSet: 63,
    flags: 1,
    length: 11,
    decimals: 0,
  };
  writeFileSync(
    join(result.folder, 'columns.json'),
    JSON.stringify({ columns, definitions: [definition], isBinary: false }),
  );
  writeFileSync(join(result.folder, 'rows'), '');
  writeFileSync(join(result.folder, 'index'), '');
  for (let number = 0; number < batches; number++) {
    appendFileSync(join(result.folder, 'rows'), bytes);
    appendFileSync(join(result.folder, 'index'), indexRecord(batch));
  }
  return batch;
}
