import fs, { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { LogWriter } from '#src/log-writer.js';
import { until } from './support/until.ts';

const bytesMax = 8 * 1024 * 1024;
const longMs = 600_000;

/** Writes fail with `code`, and the first takes half of its bytes if `isHalf`. null: the disk works. */
interface Disk {
  code: string | null;
  isHalf: boolean;
  failures: number;
}

function open(t: Test) {
  const folder = mkdtempSync(join(tmpdir(), 'log-writer-'));
  const path = join(folder, 'log');
  const descriptor = openSync(path, 'w');
  const disk: Disk = { code: null, isHalf: false, failures: 0 };
  const { write, writeSync } = fs;
  const errorOf = (code: string) => Object.assign(new Error(`${code}: a fault of the test`), { code });
  /** The bytes to write, or null for a failure. */
  const taken = (bytes: Buffer): Buffer | null => {
    if (disk.code === null) return bytes;
    if (disk.isHalf) {
      disk.isHalf = false;
      return bytes.subarray(0, bytes.length / 2);
    }
    disk.failures++;
    return null;
  };
  const isFaulty = (other: number): boolean => other === descriptor;
  const fake = (other: number, bytes: Buffer, callback: (error: Error | null, length?: number) => void) => {
    const part = isFaulty(other) ? taken(bytes) : bytes;
    if (part === null) setImmediate(callback, errorOf(disk.code ?? ''));
    else write(other, part, callback);
  };
  const fakeSync = (other: number, bytes: Buffer): number => {
    const part = isFaulty(other) ? taken(bytes) : bytes;
    if (part === null) throw errorOf(disk.code ?? '');
    return writeSync(other, part);
  };
  Object.assign(fs, { write: fake, writeSync: fakeSync });
  syncBuiltinESMExports();
  t.teardown(() => {
    Object.assign(fs, { write, writeSync });
    syncBuiltinESMExports();
    closeSync(descriptor);
    rmSync(folder, { recursive: true });
  });
  const dropped: number[] = [];
  const writer = new LogWriter(descriptor, (lines) => {
    dropped.push(lines);
    writer.add(`dropped ${lines}\n`);
  });
  return { writer, disk, dropped, log: () => readFileSync(path, 'utf8') };
}

const linesOf = (count: number, from = 0): string[] =>
  Array.from({ length: count }, (_, index) => `line ${from + index}\n`);

t.test('lines are written in their order, soon after they are added', async (t) => {
  const { writer, log } = open(t);
  const lines = linesOf(10_000);
  for (const line of lines.slice(0, 9_000)) writer.add(line);
  await until(() => log() === lines.slice(0, 9_000).join(''));
  for (const line of lines.slice(9_000)) writer.add(line);
  await writer.flush(longMs);
  t.equal(log(), lines.join(''));
  await writer.flush(longMs);
});

t.test(
  'lines that a full disk did not take are written when it has space again, and none is cut or doubled',
  async (t) => {
    const { writer, disk, dropped, log } = open(t);
    Object.assign(disk, { code: 'ENOSPC', isHalf: true });
    const lines = linesOf(10_000);
    for (const line of lines) writer.add(line);
    await until(() => disk.failures >= 2);
    t.ok(log().length < 40_000);
    disk.code = null;
    await until(() => log() === lines.join(''));
    t.strictSame(dropped, []);
  },
);

t.test(
  'while the disk is full, some megabytes of lines wait; the number of the others is reported later',
  async (t) => {
    const { writer, disk, dropped, log } = open(t);
    disk.code = 'ENOSPC';
    const line = `${'x'.repeat(999)}\n`;
    const count = 10_000;
    for (let index = 0; index < count; index++) writer.add(line);
    await until(() => disk.failures >= 2);
    disk.code = null;
    await until(() => log().includes('dropped'));
    const waited = Math.floor(bytesMax / line.length);
    t.equal(log(), `${line.repeat(waited)}dropped ${count - waited}\n`);
    t.strictSame(dropped, [count - waited]);
  },
);

t.test('a flush ends at an error; it waits while a pipe is full, for no longer than it should', async (t) => {
  const { writer, disk, log } = open(t);
  disk.code = 'ENOSPC';
  writer.add('one\n');
  await writer.flush(longMs);
  t.equal(disk.failures, 1);
  disk.code = 'EAGAIN';
  await writer.flush(300);
  t.ok(disk.failures > 2);
  const flushed = writer.flush(longMs);
  disk.code = null;
  await flushed;
  t.equal(log(), 'one\n');
});

t.test('the last write gives up at an error, and after its time while a pipe is full', (t) => {
  for (const code of ['ENOSPC', 'EPIPE', 'EIO']) {
    t.test(code, (t) => {
      const { writer, disk, log } = open(t);
      writer.add('one\n');
      writer.add('two\n');
      Object.assign(disk, { code, isHalf: true });
      writer.writeRest(longMs);
      t.equal(disk.failures, 1);
      t.equal(log(), 'one\n');
      t.end();
    });
  }
  t.test('EAGAIN', (t) => {
    const { writer, disk, log } = open(t);
    writer.add('one\n');
    disk.code = 'EAGAIN';
    writer.writeRest(250);
    t.ok(disk.failures > 1);
    disk.code = null;
    writer.writeRest(250);
    t.equal(log(), 'one\n');
    t.end();
  });
  t.end();
});
