import { execFile } from 'node:child_process';
import { chmod, mkdtemp, readdir, readlink, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import type { Batch } from '#src/wire/statement.js';
import { SpillFile } from '#src/worker/spill-file.js';
import { type Random, randomBytes, seeded } from '../support/random.ts';

const KiB = 1024;
const run = promisify(execFile);

function randomBatch(random: Random, size: number): Batch {
  const bytes = randomBytes(random, size);
  const buffer = new ArrayBuffer(size);
  new Uint8Array(buffer).set(bytes);
  const batch = { buffer, length: random(size + 1), rows: random(1_000) };
  return random(2) === 0 ? batch : { ...batch, deflatedCrc: random(2 ** 32) };
}

/** The unlinked files of that folder that this process has open, by paths that can be opened. */
async function openFiles(folder: string): Promise<{ path: string; name: string }[]> {
  const files = [];
  for (const number of await readdir('/proc/self/fd')) {
    const path = join('/proc/self/fd', number);
    const name = await readlink(path).catch(() => '');
    if (name.startsWith(folder)) files.push({ path, name });
  }
  return files;
}

function same(one: Batch, other: Batch): boolean {
  const { buffer, ...rest } = one;
  const { buffer: otherBuffer, ...otherRest } = other;
  return Buffer.from(buffer).equals(Buffer.from(otherBuffer)) && JSON.stringify(rest) === JSON.stringify(otherRest);
}

t.test('the file is private and unlinked', async (t) => {
  const folder = join(t.testdir(), 'made', 'here');
  const file = await SpillFile.create(folder);
  t.strictSame(await readdir(folder), []);
  const [open, ...others] = await openFiles(folder);
  t.strictSame(others, []);
  t.match(open?.name, / \(deleted\)$/);
  t.equal((await stat(open?.path ?? '')).mode & 0o777, 0o600);
  t.equal((await stat(folder)).mode & 0o777, 0o700);
  await file.close();
  t.strictSame(await openFiles(folder), [], 'the disk space is freed');
});

t.test('an existing folder is unchanged', async (t) => {
  const folder = t.testdir({ other: 'of another program' });
  await chmod(folder, 0o755);
  await (await SpillFile.create(folder)).close();
  t.strictSame(await readdir(folder), ['other']);
  t.equal((await stat(folder)).mode & 0o777, 0o755);
});

t.test('batches are read back in order, byte for byte, in any order of reads and writes', async (t) => {
  const random = seeded(t);
  for (let round = 0; round < 20; round++) {
    const file = await SpillFile.create(t.testdir());
    const written: Batch[] = [];
    let read = 0;
    let bytes = 0;
    for (let step = 0; step < 100; step++) {
      const batch = randomBatch(random, 1 + random(random(5) === 0 ? 200 * KiB : 500));
      const isRead = file.unread > 0 && random(2) === 0;
      // A read and a write may run concurrently.
      const writing = isRead && random(2) === 0 ? null : file.write(batch);
      if (isRead) {
        const back = await file.read();
        if (!same(back, written[read++] as Batch)) t.fail(`round ${round}, batch ${read - 1}: it differs`);
        if (back.buffer.byteLength !== written[read - 1]?.buffer.byteLength) t.fail('its memory is shared');
      }
      if (writing !== null) {
        await writing;
        written.push(batch);
        bytes += batch.buffer.byteLength;
      }
      if (file.unread !== written.length - read) t.equal(file.unread, written.length - read);
      if (file.bytes !== bytes) t.equal(file.bytes, bytes, 'batches that were read are on disk as well');
    }
    while (file.unread > 0) {
      if (!same(await file.read(), written[read++] as Batch)) t.fail(`round ${round}: it differs`);
    }
    if (read !== written.length) t.equal(read, written.length);
    await file.close();
  }
  t.pass('20 files');
});

t.test('many batches are read in order and released', async (t) => {
  const file = await SpillFile.create(t.testdir());
  const count = 3_000;
  for (let row = 0; row < count; row++) {
    const buffer = new ArrayBuffer(8);
    new Uint32Array(buffer)[0] = row;
    await file.write({ buffer, length: 4, rows: 1 });
  }
  let wrong = 0;
  for (let row = 0; row < count; row++) if (new Uint32Array((await file.read()).buffer)[0] !== row) wrong++;
  t.equal(wrong, 0);
  t.equal(file.unread, 0);
  await file.close();
});

t.test('the memory of a batch is not changed', async (t) => {
  const file = await SpillFile.create(t.testdir());
  const batch = randomBatch(seeded(t), 10 * KiB);
  const before = Buffer.from(Buffer.from(batch.buffer));
  await file.write(batch);
  t.equal(batch.buffer.byteLength, 10 * KiB, 'it is not transferred');
  t.ok(before.equals(Buffer.from(batch.buffer)));
  await file.close();
});

t.test('a file is not created if its folder cannot be', async (t) => {
  const folder = t.testdir();
  await writeFile(join(folder, 'file'), '');
  await t.rejects(SpillFile.create(join(folder, 'file')), { code: 'EEXIST' });
  await t.rejects(SpillFile.create(join(folder, 'file', 'spill')), { code: 'ENOTDIR' });
  t.strictSame(await openFiles(folder), []);
});

t.test('a full disk and a read-only disk are reported as such', async (t) => {
  const folder = await smallDisk(t);
  if (folder === null) return;
  const file = await SpillFile.create(join(folder, 'spill'));
  const batch = randomBatch(seeded(t), 200 * KiB);
  let error: NodeJS.ErrnoException | null = null;
  let written = 0;
  while (error === null && written < 20) {
    await file.write(batch).then(
      () => written++,
      (reason: NodeJS.ErrnoException) => {
        error = reason;
      },
    );
  }
  t.match(error, { code: 'ENOSPC' });
  t.ok(written > 1 && written < 6, `${written} of them fit`);
  t.equal(file.bytes, written * 200 * KiB, 'a partial batch is not counted');
  t.equal(file.unread, written);
  for (let read = 0; read < written; read++) t.ok(same(await file.read(), batch), 'earlier batches can be read');
  const other = join(folder, 'spill', 'other');
  await writeFile(other, '').catch(() => {});
  await file.close();
  await t.resolves(writeFile(other, Buffer.alloc(500 * KiB)), 'the disk space is freed');
  await run('mount', ['-o', 'remount,ro', folder]);
  await t.rejects(SpillFile.create(join(folder, 'spill')), { code: 'EROFS' });
  await t.rejects(SpillFile.create(join(folder, 'none')));
  t.strictSame(await openFiles(folder), []);
});

/** A disk of 1 MiB, or null with the test skipped if it cannot be mounted. */
async function smallDisk(t: Test): Promise<string | null> {
  const folder = await mkdtemp(join(tmpdir(), 'spill-file-'));
  t.teardown(() => rm(folder, { recursive: true }));
  try {
    await run('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', folder]);
  } catch (error) {
    t.pass('a disk that is full', { skip: `there is none: ${(error as Error).message}` });
    return null;
  }
  t.teardown(() => run('umount', ['-l', folder]));
  return folder;
}
