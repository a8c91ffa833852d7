import { randomBytes, randomInt } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import t from 'tap';
import { formats } from '#src/formats/index.js';
import { BatchIndex } from '#src/results/batch-index.js';
import { fileBytesMax } from '#src/results/file-size.js';
import type { FileContent } from '#src/wire/kept-reading.js';
import { indexRecord, keptFiles } from '#src/wire/kept-rows.js';
import { rowEndsOffset } from '#src/wire/statement.js';
import type { ColumnDefinition } from '#src/worker/columns.js';
import { writeKeptFile } from '#src/worker/kept-file-writer.js';
import { resultColumns } from '#src/worker/result-columns.js';

/** What the limit has beside its terms for columns, rows and batches: these alone must suffice. */
const slackBytes = 64 * 1024;

type Cell = Buffer | null;

const text = { type: 253, characterSet: 255 };
const blob = { type: 252, characterSet: 63 };
const integer = { type: 3, characterSet: 63 };
const decimal = { type: 246, characterSet: 63, length: 67, decimals: 30 };

function definitionsOf(columns: readonly Partial<ColumnDefinition>[]): ColumnDefinition[] {
  return columns.map((column, index) => ({
    ...{ name: `c${index}`, hasUtf8Names: true, type: 3, typeName: '', isExpression: false, isStored: true },
    ...{ characterSet: 63, flags: 0, length: 11, decimals: 0 },
    ...column,
  }));
}

function packetOf(row: readonly Cell[]): Buffer {
  const cells = row.flatMap((cell) => {
    if (cell === null) return [Buffer.from([0xfb])];
    const prefix = Buffer.from([0xfd, 0, 0, 0]);
    prefix.writeUIntLE(cell.length, 1, 3);
    return [cell.length < 0xfb ? Buffer.from([cell.length]) : prefix, cell];
  });
  const payload = Buffer.concat(cells);
  const header = Buffer.alloc(4);
  header.writeUIntLE(payload.length, 0, 3);
  return Buffer.concat([header, payload]);
}

/** The file of a result, and the limit of its size. */
async function sizes(
  columns: readonly Partial<ColumnDefinition>[],
  row: () => readonly Cell[],
  rows: number,
  rowsPerBatch: number,
  type: FileContent['type'],
): Promise<{ bytes: number; limit: number }> {
  const folder = mkdtempSync(join(tmpdir(), 'file-size-'));
  try {
    const definitions = definitionsOf(columns);
    const shown = resultColumns(definitions, formats.json, false).columns;
    writeFileSync(join(folder, keptFiles.columns), JSON.stringify({ columns: shown, definitions, isBinary: false }));
    const index = new BatchIndex();
    const batches: Buffer[] = [];
    const records: Buffer[] = [];
    for (let left = rows; left > 0; left -= rowsPerBatch) {
      const packets = Array.from({ length: Math.min(left, rowsPerBatch) }, () => packetOf(row()));
      const count = packets.length;
      const length = packets.reduce((sum, packet) => sum + packet.length, 0);
      const bytes = Buffer.alloc(rowEndsOffset(length) + 4 * count);
      let end = 0;
      for (const [at, packet] of packets.entries()) {
        end += packet.copy(bytes, end);
        bytes.writeUInt32LE(end, rowEndsOffset(length) + 4 * at);
      }
      const batch = { rows: count, length, bytes: bytes.length, textBytes: 0, crc: crc32(bytes) };
      index.add(batch);
      batches.push(bytes);
      records.push(indexRecord(batch));
    }
    writeFileSync(join(folder, keptFiles.rows), Buffer.concat(batches));
    writeFileSync(join(folder, keptFiles.index), Buffer.concat(records));
    const content = { type } as FileContent;
    const { bytes } = await writeKeptFile({
      ...{ type: 'write', folder, file: join(folder, 'file'), batchCount: index.batches, format: 'arrow', content },
      ...{ bytesMax: Number.MAX_SAFE_INTEGER, stop: new Int32Array(1) },
    });
    return { bytes, limit: fileBytesMax(content, 'arrow', shown, index) };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

t.test('no file is larger than its limit, which reserves its disk space', async (t) => {
  // Nothing can be compressed, and no value comes twice.
  const noise = (size: number): Buffer => Buffer.from(randomBytes(size).toString('base64').slice(0, size));
  const all = (columns: number, cell: Cell) => () => Array<Cell>(columns).fill(cell);
  const cases: [string, Partial<ColumnDefinition>[], () => Cell[], number, number][] = [
    ['large texts', [text], () => [noise(300_000)], 40, 1],
    ['large bytes', [blob], () => [randomBytes(2_000_000)], 10, 1],
    ['texts of any size', [text, text], () => [noise(1_000), null], 3_000, 200],
    ['small integers', [integer], all(1, Buffer.from('7')), 20_000, 5_000],
    ['random integers', [integer], () => [Buffer.from(`${randomInt(2 ** 31)}`)], 20_000, 5_000],
    ['NULL in decimals', Array(50).fill(decimal), all(50, null), 3_000, 3_000],
    ['many columns', Array(4_000).fill(integer), all(4_000, Buffer.from('1')), 60, 20],
    ['many columns, few rows', Array(4_000).fill(text), all(4_000, null), 2, 1],
    ['no rows', [integer, text], all(2, null), 0, 1],
  ];
  for (const [name, columns, row, rows, rowsPerBatch] of cases) {
    for (const type of ['arrow', 'parquet'] as const) {
      const { bytes, limit } = await sizes(columns, row, rows, rowsPerBatch, type);
      t.ok(bytes <= limit - slackBytes, `${name}, ${type}: ${bytes} bytes, and the limit is ${limit}`);
    }
  }
});
