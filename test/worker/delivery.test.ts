import { truncateSync } from 'node:fs';
import { readdir, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { SpillLimits } from '#src/wire/messages.js';
import { SpillUsage } from '#src/wire/spill-usage.js';
import type { Batch } from '#src/wire/statement.js';
import { Delivery } from '#src/worker/delivery.js';
import { pick, type Random, seeded } from '../support/random.ts';
import { unshared } from '../support/spill.ts';
import { until } from '../support/until.ts';

const KiB = 1024;
const MiB = 1024 ** 2;
const GiB = 1024 ** 3;
/** The most bytes that the delivery keeps in memory while it writes, apart from the last batch. It resumes at half of that. */
const pendingBytesMax = 512 * KiB;
/** Longer than any test runs. */
const forever = 3_600_000;

interface Sent {
  readonly batch: Omit<Batch, 'buffer'>;
  readonly bytes: Buffer;
}

/**
 * A delivery between a database and a reader simulated by the test, and a simple model of it. Differences between the delivered or
 * reported batches and the model are added to `faults`.
 */
class Stage {
  readonly usage: SpillUsage;
  readonly limits: SpillLimits;
  readonly delivery: Delivery;
  readonly faults: string[] = [];
  /** Batches that were sent, and neither delivered nor reported as spilled. */
  readonly pending: Sent[] = [];
  readonly onDisk: Sent[] = [];
  readonly posted: { rows: number; fromDisk: boolean }[] = [];
  sentRows = 0;
  spilledRows = 0;
  pendingMost = 0;
  pauses = 0;
  paused = false;
  /** The calls of `unwritten`. */
  readonly unwritten: number[] = [];
  largeGone = 0;
  drains = 0;
  done = 0;
  error: NodeJS.ErrnoException | null = null;
  rowsToCome: number | null = null;
  creditBytes: number;
  creditRows: number;
  ended = false;
  closed = false;

  constructor(limits: SpillLimits, usage: SpillUsage, creditBytes: number, creditRows: number) {
    this.limits = limits;
    this.usage = usage;
    this.creditBytes = creditBytes;
    this.creditRows = creditRows;
    this.delivery = new Delivery(creditBytes, creditRows, limits, usage.ofUser(0), {
      deliver: (batch, fromDisk) => this.#post(batch, fromDisk),
      spilled: (rows, bytes) => this.#spilled(rows, bytes),
      unwritten: (bytes) => this.unwritten.push(bytes),
      largeGone: () => {
        this.largeGone++;
      },
      pause: () => this.#pause(true),
      resume: () => this.#pause(false),
      onDrain: () => {
        this.#heard('onDrain');
        this.drains++;
      },
      failed: (error) => {
        this.#heard('failed');
        this.error = error;
        this.closed = true;
      },
      done: () => {
        this.#heard('done');
        this.done++;
        this.closed = true;
      },
    });
  }

  get pendingBytes(): number {
    return this.pending.reduce((sum, { bytes }) => sum + bytes.length, 0);
  }

  get diskBytes(): number {
    return this.onDisk.reduce((sum, { bytes }) => sum + bytes.length, 0);
  }

  get rowsLeft(): number {
    return [...this.onDisk, ...this.pending].reduce((sum, { batch }) => sum + batch.rows, 0);
  }

  send(size: number, rows = 1): void {
    const buffer = Buffer.allocUnsafeSlow(size);
    for (let at = 0; at < size; at += 4) buffer.writeUInt32LE(Math.imul(this.sentRows + 1, at + 1) >>> 0, at);
    const batch = { length: size - 4, rows, ...(this.sentRows % 3 === 0 ? { deflatedCrc: this.sentRows } : {}) };
    this.sentRows += rows;
    this.pending.push({ batch, bytes: Buffer.from(buffer) });
    this.delivery.send({ ...batch, buffer: buffer.buffer });
    this.check();
  }

  credit(bytes: number, rows: number): void {
    this.creditBytes += bytes;
    this.creditRows += rows;
    this.delivery.credit(bytes, rows);
    this.check();
  }

  /** The statement has ended, with its last batch sent. */
  end(): void {
    this.ended = true;
    this.delivery.end((rowsToCome) => {
      this.#heard('the end');
      if (this.rowsToCome !== null) this.faults.push('the end was reported twice');
      if (rowsToCome !== this.rowsLeft)
        this.faults.push(`${rowsToCome} rows to come were reported, not ${this.rowsLeft}`);
      this.rowsToCome = rowsToCome;
    });
  }

  close(): void {
    this.delivery.close();
    this.closed = true;
  }

  /** Invariants between calls. */
  check(): void {
    // After the end of the statement no rows follow, and the next statement needs the connection.
    if (this.closed || this.ended) {
      if (this.paused) this.faults.push('the database is left paused');
      return;
    }
    this.pendingMost = Math.max(this.pendingMost, this.pendingBytes);
    const hasCredit = this.creditBytes > 0 && this.creditRows > 0;
    const mustPause = this.delivery.isSpilling ? this.pendingBytes > pendingBytesMax : !hasCredit;
    const mayPause = this.delivery.isSpilling ? this.pendingBytes > pendingBytesMax / 2 : !hasCredit;
    if (mustPause && !this.paused) this.faults.push('the database is running without room');
    if (!mayPause && this.paused) this.faults.push('the database is paused although there is room');
    if (this.delivery.isPaused !== this.paused) this.faults.push('isPaused is wrong');
    if (this.usage.bytes > this.limits.total.bytes.max)
      this.faults.push('the disk limit of all statements is exceeded');
    if (this.diskBytes > this.limits.bytesMax) this.faults.push('the disk limit of one statement is exceeded');
  }

  #post(batch: Batch, fromDisk: boolean): void {
    this.#heard('rows');
    if (this.creditBytes <= 0 || this.creditRows <= 0) this.faults.push('rows came without credit');
    this.creditBytes -= batch.buffer.byteLength;
    this.creditRows -= batch.rows;
    if (!fromDisk && this.onDisk.length > 0) this.faults.push('rows overtook those on disk');
    const expected = (fromDisk ? this.onDisk : this.pending).shift();
    // The memory is transferred, as to another thread.
    const { buffer, ...rest } = structuredClone(batch, { transfer: [batch.buffer] });
    if (expected === undefined || !expected.bytes.equals(Buffer.from(buffer)))
      this.faults.push('wrong bytes were delivered');
    if (JSON.stringify(rest) !== JSON.stringify(expected?.batch))
      this.faults.push(`delivered as ${JSON.stringify(rest)}`);
    this.posted.push({ rows: batch.rows, fromDisk });
  }

  #spilled(rows: number, bytes: number): void {
    this.#heard('spilled');
    const sent = this.pending.shift();
    if (sent?.batch.rows !== rows || sent.batch.length !== bytes) {
      this.faults.push('a batch was reported as spilled out of order');
    } else {
      this.onDisk.push(sent);
    }
    this.spilledRows += rows;
  }

  #pause(paused: boolean): void {
    if (this.paused === paused) this.faults.push(`the database was ${paused ? 'paused' : 'resumed'} twice`);
    this.paused = paused;
    if (paused) this.pauses++;
  }

  #heard(what: string): void {
    if (this.closed) this.faults.push(`${what} came after the end`);
  }
}

function limitsOf(t: Test, changed: Partial<SpillLimits> = {}): SpillLimits {
  return { folder: changed.folder ?? t.testdir(), bytesMax: GiB, total: unshared(GiB), waitMs: 0, ...changed };
}

function usageOf({ total }: SpillLimits): SpillUsage {
  return SpillUsage.forThreads(1, total);
}

/** A delivery that spills, because its reader takes a single row. */
async function spilling(t: Test, changed: Partial<SpillLimits> = {}): Promise<Stage> {
  const limits = limitsOf(t, changed);
  const stage = new Stage(limits, usageOf(limits), 1, 1_000_000);
  stage.send(100);
  await until(() => stage.delivery.isSpilling);
  return stage;
}

t.test('with credit, batches are delivered at once and nothing is written to disk', async (t) => {
  const limits = limitsOf(t);
  const stage = new Stage(limits, usageOf(limits), 1_000, 10);
  for (let batch = 0; batch < 3; batch++) stage.send(100, 2);
  t.strictSame(
    stage.posted,
    [0, 1, 2].map(() => ({ rows: 2, fromDisk: false })),
  );
  t.equal(stage.delivery.rowsWanted, 4);
  t.equal(stage.paused, false);
  stage.close();
  t.strictSame(stage.faults, []);
  t.equal(stage.usage.bytes, 0);
});

t.test('the database pauses when the credit is used up, and resumes with new credit', async (t) => {
  for (const [bytes, rows] of [
    [100, 10],
    [1_000, 1],
  ] as const) {
    const limits = limitsOf(t, { waitMs: forever });
    const stage = new Stage(limits, usageOf(limits), bytes, rows);
    stage.send(100);
    t.equal(stage.paused, true);
    stage.credit(50, 0);
    stage.credit(0, 1);
    t.equal(stage.paused, false);
    stage.close();
    t.strictSame(stage.faults, []);
  }
});

t.test('a reader that returns in time causes no spilling', async (t) => {
  const limits = limitsOf(t, { waitMs: 60 });
  const stage = new Stage(limits, usageOf(limits), 100, 10);
  stage.send(100);
  // In the same turn of the event loop, so that no timer can fire in between.
  stage.credit(100, 0);
  await delay(80);
  t.equal(stage.delivery.isSpilling, false);
  t.equal(stage.paused, false);
  // Timers of equal duration fire in the order in which they were set.
  const isEarly = new Promise((resolve) => setTimeout(() => resolve(stage.delivery.isSpilling), limits.waitMs));
  stage.send(100);
  t.equal(stage.paused, true);
  t.equal(await isEarly, false, 'the next pause has the full time again');
  await until(() => stage.delivery.isSpilling);
  t.equal(stage.paused, false, 'the database resumes');
  stage.close();
  t.strictSame(stage.faults, []);
});

t.test('without disk space there is no spilling', async (t) => {
  const limits = limitsOf(t, { bytesMax: 0 });
  const stage = new Stage(limits, usageOf(limits), 100, 10);
  stage.send(100);
  await delay(30);
  t.equal(stage.delivery.isSpilling, false);
  t.equal(stage.paused, true);
  stage.close();
  t.equal(stage.paused, false, 'the database is not left paused');
});

t.test('unread batches are written to disk, reported, and read when there is credit', async (t) => {
  const stage = await spilling(t);
  for (let batch = 0; batch < 20; batch++) stage.send(50 * KiB, 3);
  await until(() => stage.onDisk.length === 20);
  t.equal(stage.usage.bytes, 20 * 50 * KiB);
  t.equal(stage.delivery.rowsWanted, 1_000_000, 'missing credit does not make batches small');
  t.equal(stage.posted.length, 1, 'nothing is delivered without credit');
  stage.credit(100 * KiB, 0);
  await until(() => stage.posted.length === 3);
  await delay(10);
  t.equal(stage.posted.length, 3, 'no more than the credit is delivered');
  stage.credit(GiB, 0);
  await until(() => stage.posted.length === 21);
  t.ok(stage.posted.slice(1).every(({ fromDisk }) => fromDisk));
  t.equal(stage.drains, 1);
  t.equal(stage.delivery.isSpilling, false, 'the reader has caught up');
  t.equal(stage.usage.bytes, 0);
  stage.send(100);
  t.strictSame(stage.posted.at(-1), { rows: 1, fromDisk: false });
  stage.close();
  t.strictSame(stage.faults, []);
});

t.test('the end is reported when all rows are on disk, with the rows to come', async (t) => {
  const stage = await spilling(t);
  for (let batch = 0; batch < 5; batch++) stage.send(1_000, 7);
  stage.end();
  t.equal(stage.rowsToCome, null, 'not before');
  await until(() => stage.rowsToCome !== null);
  t.equal(stage.rowsToCome, 35);
  t.equal(stage.onDisk.length, 5);
  t.equal(stage.done, 0);
  stage.credit(GiB, 0);
  await until(() => stage.done > 0);
  t.equal(stage.posted.length, 6);
  t.equal(stage.usage.bytes, 0);
  t.equal(stage.drains, 0, 'no more credit is needed');
  t.strictSame(stage.faults, []);
});

t.test('an end without rows to come is reported at once and completes the delivery', async (t) => {
  const stage = await spilling(t);
  stage.end();
  t.equal(stage.rowsToCome, 0);
  t.equal(stage.done, 1);
  t.strictSame(stage.faults, []);
});

t.test('at the disk limit of one statement the database pauses, and no row is lost', async (t) => {
  const stage = await spilling(t, { bytesMax: 1_000 * KiB });
  for (let batch = 1; batch <= 10; batch++) {
    stage.send(100 * KiB);
    await until(() => stage.onDisk.length === batch);
  }
  for (let batch = 0; batch < 20 && !stage.paused; batch++) stage.send(100 * KiB);
  await delay(20);
  t.equal(stage.onDisk.length, 10);
  t.equal(stage.usage.bytes, 1_000 * KiB);
  t.equal(stage.pending.length, 6);
  stage.credit(300 * KiB, 0);
  await until(() => stage.posted.length === 4);
  await delay(10);
  t.equal(stage.pending.length, 6, 'only reading the complete file frees space');
  stage.credit(GiB, 0);
  await until(() => stage.posted.length === 17);
  t.strictSame(stage.faults, []);
  t.equal(stage.paused, false);
  t.equal(stage.usage.bytes, 0);
  stage.close();
});

t.test('a batch larger than the disk limit waits in memory, and so do those behind it', async (t) => {
  const stage = await spilling(t, { bytesMax: 1_000 });
  for (const size of [500, 2_000, 500]) stage.send(size);
  stage.end();
  await until(() => stage.rowsToCome !== null);
  t.equal(stage.rowsToCome, 3);
  t.equal(stage.spilledRows, 1);
  stage.credit(GiB, 0);
  await until(() => stage.done > 0);
  t.strictSame(stage.faults, []);
  t.strictSame(
    stage.posted.map(({ fromDisk }) => fromDisk),
    [false, true, false, false],
  );
});

t.test('at the disk limit of all statements it waits until others free space', async (t) => {
  const stage = await spilling(t, { total: unshared(10_000) });
  t.equal(stage.usage.ofUser(0).reserve(9_500, 0), true);
  stage.send(1_000);
  stage.send(1_000);
  await delay(20);
  t.equal(stage.spilledRows, 0);
  stage.usage.ofUser(0).release(9_500, 0);
  await until(() => stage.spilledRows === 2);
  t.equal(stage.usage.bytes, 2_000);
  stage.close();
  await until(() => stage.usage.bytes === 0);
  t.strictSame(stage.faults, []);
});

t.test('it tries to spill again after a reader has taken some rows and stopped', async (t) => {
  const stage = await spilling(t, { total: unshared(10_000) });
  t.equal(stage.usage.ofUser(0).reserve(9_500, 0), true);
  for (let batch = 0; batch < 3; batch++) stage.send(1_000);
  await delay(20);
  stage.credit(100 + 1_000, 0);
  t.equal(stage.posted.length, 3, 'two batches came from memory');
  stage.usage.ofUser(0).release(9_500, 0);
  await until(() => stage.spilledRows === 1).catch(() => t.fail('the third batch is never written to disk'));
  stage.close();
});

t.test('a database that was paused over its last rows is resumed', async (t) => {
  const stage = await spilling(t, { bytesMax: 1_000 });
  for (let batch = 0; batch < 5; batch++) stage.send(120 * KiB);
  t.equal(stage.paused, true, 'by the last rows');
  stage.end();
  t.equal(stage.paused, false, 'the next statement needs the connection');
  t.equal(stage.rowsToCome, 5);
  stage.credit(GiB, 0);
  await until(() => stage.done > 0);
  t.equal(stage.paused, false);
  t.strictSame(stage.faults, []);
});

t.test('a close frees the disk space, also during a read or a write', async (t) => {
  for (const when of ['before a write', 'amid a write', 'after writes', 'amid a read']) {
    const stage = await spilling(t);
    if (when !== 'before a write') for (let batch = 0; batch < 3; batch++) stage.send(10_000);
    if (when === 'after writes' || when === 'amid a read') await until(() => stage.onDisk.length === 3);
    if (when === 'amid a read') stage.credit(GiB, 0);
    stage.close();
    stage.close();
    await until(() => stage.usage.bytes === 0);
    await delay(20);
    t.strictSame(stage.faults, [], when);
    t.equal(stage.usage.bytes, 0);
    t.strictSame(await openFiles(stage.limits.folder), [], when);
  }
});

t.test('a folder that cannot be created fails the delivery once, and nothing is left', async (t) => {
  const folder = join(t.testdir({ file: '' }), 'file', 'spill');
  const stage = await spilling(t, { folder });
  for (let batch = 0; batch < 7; batch++) stage.send(90 * KiB);
  t.equal(stage.paused, true);
  await until(() => stage.error !== null);
  t.equal(stage.error?.code, 'ENOTDIR');
  t.equal(stage.paused, false);
  stage.credit(GiB, 100);
  await delay(10);
  t.strictSame(stage.faults, []);
  t.equal(stage.usage.bytes, 0);
  t.equal(stage.spilledRows, 0);
});

t.test('a failed write after the end of the statement loses nothing: the rows are in memory', async (t) => {
  for (const isWaiting of [false, true]) {
    const folder = join(t.testdir({ file: '' }), 'file', 'spill');
    const stage = await spilling(t, { folder, total: unshared(10_000) });
    if (isWaiting) t.equal(stage.usage.ofUser(0).reserve(9_500, 0), true);
    for (let batch = 0; batch < 3; batch++) stage.send(1_000);
    stage.end();
    if (isWaiting) {
      t.equal(stage.rowsToCome, 3, 'the end is reported although there is no room');
      stage.usage.ofUser(0).release(9_500, 0);
    } else {
      await until(() => stage.rowsToCome === 3);
    }
    await until(() => stage.usage.bytes === 0);
    await delay(250);
    stage.credit(GiB, 100);
    await until(() => stage.done > 0).catch(() => t.fail(`${stage.posted.length} batches, ${stage.error}`));
    t.equal(stage.posted.length, 4);
    t.equal(stage.error, null);
    t.strictSame(stage.faults, []);
    t.equal(stage.usage.bytes, 0);
  }
});

t.test('a file that loses its content fails the delivery when it is read, also after the end', async (t) => {
  for (const isEnded of [false, true]) {
    const stage = await spilling(t);
    for (let batch = 0; batch < 3; batch++) stage.send(10_000);
    await until(() => stage.onDisk.length === 3);
    if (isEnded) stage.end();
    const [file] = await openFiles(stage.limits.folder);
    truncateSync(file as string, 15_000);
    stage.credit(GiB, 100);
    await until(() => stage.error !== null);
    t.match(stage.error?.message, /shorter/);
    t.equal(stage.posted.length, 2, 'the first batch was still readable');
    t.equal(stage.done, 0);
    await delay(10);
    t.strictSame(stage.faults, []);
    t.equal(stage.usage.bytes, 0);
  }
});

t.test('in any order of events, each batch is delivered once, in order, unchanged', async (t) => {
  const random = seeded(t);
  const seen = { fromDisk: 0, fromMemory: 0, pauses: 0, caughtUp: 0, toCome: 0, full: 0 };
  // The cases depend on chance and on the speed of the disk, so this repeats until all have occurred.
  const isEnough = (run: number): boolean => run >= 60 && Object.values(seen).every((count) => count > 0);
  for (let run = 0; !isEnough(run) && run < 600; run++) {
    const totalBytesMax = pick(random, [300 * KiB, 3_000 * KiB, GiB, GiB]);
    const total = unshared(totalBytesMax);
    const usage = SpillUsage.forThreads(1, total);
    const folder = t.testdir();
    const stages = Array.from({ length: 1 + random(3) }, () => {
      const bytesMax = pick(random, [0, 100 * KiB, 1_000 * KiB, GiB, GiB, GiB]);
      const limits = { folder, bytesMax, total, waitMs: pick(random, [0, 0, 0, 3]) };
      return new Stage(limits, usage, 1 + random(50 * KiB), 1 + random(300));
    });
    // Other files take disk space and free it.
    let others = 0;
    const crowd = setInterval(() => {
      if (others > 0) usage.ofUser(0).release(others, 0);
      others = random(2) === 0 ? random(totalBytesMax) : 0;
      if (others > 0 && !usage.ofUser(0).reserve(others, 0)) others = 0;
    }, 30);
    await Promise.all(stages.map((stage) => play(stage, random, run % 4 === 3)));
    clearInterval(crowd);
    usage.ofUser(0).release(others, 0);
    for (const stage of stages) {
      if (stage.faults.length > 0) {
        t.strictSame(stage.faults.slice(0, 5), [], `run ${run}, ${JSON.stringify(stage.limits)}`);
        return;
      }
      seen.fromDisk += stage.posted.filter(({ fromDisk }) => fromDisk).length;
      seen.fromMemory += stage.posted.filter(({ fromDisk }) => !fromDisk).length;
      seen.pauses += stage.pauses;
      seen.caughtUp += stage.drains;
      seen.toCome += stage.rowsToCome ?? 0;
      if (stage.pendingMost > pendingBytesMax) seen.full++;
    }
    await until(() => usage.bytes === 0 && usage.files === 0).catch(() =>
      t.fail(`round ${run}: ${usage.bytes} bytes in ${usage.files} files are not freed`),
    );
    const left = await openFiles(folder);
    if (left.length > 0) t.fail(`run ${run}: ${left.length} files are open`);
  }
  t.comment(seen);
  for (const [what, count] of Object.entries(seen)) t.ok(count > 0, what);
});

/** A statement of random rows and a reader of random speed. */
async function play(stage: Stage, random: Random, closes: boolean): Promise<void> {
  const steps = 20 + random(60);
  for (let step = 0; step < steps; step++) {
    if (closes && random(steps) === 0) {
      stage.close();
      break;
    }
    const what = random(10);
    if (what < 5 && !stage.paused) stage.send(4 * (2 + random(random(2) === 0 ? 50_000 : 500)), 1 + random(50));
    else if (what < 7) stage.credit(random(3) === 0 ? 1 + random(400 * KiB) : 0, random(200));
    else if (what < 9) await new Promise(setImmediate);
    else await delay(random(8));
    stage.check();
  }
  if (!stage.closed) {
    // The last packet of an answer is not read before the database is resumed.
    while (stage.paused) {
      stage.credit(random(300 * KiB), random(300));
      await delay(1);
    }
    await finish(stage, random);
  }
  stage.check();
}

async function finish(stage: Stage, random: Random): Promise<void> {
  if (!stage.delivery.isSpilling) {
    stage.close();
    if (stage.pending.length > 0) stage.faults.push('rows are left');
    return;
  }
  stage.send(4 * (2 + random(40_000)));
  stage.end();
  const deadline = performance.now() + 30_000;
  while (stage.done === 0) {
    if (performance.now() > deadline) {
      stage.faults.push('the delivery did not end');
      return;
    }
    if (random(2) === 0) stage.credit(random(300 * KiB), random(300));
    await delay(random(3));
  }
  if (stage.rowsLeft > 0) stage.faults.push('rows are left');
  if (stage.rowsToCome === null) stage.faults.push('the end was not reported');
}

/** The unlinked files of that folder that this process has open, by paths that can be opened. */
async function openFiles(folder: string): Promise<string[]> {
  const files: string[] = [];
  for (const number of await readdir('/proc/self/fd')) {
    const path = join('/proc/self/fd', number);
    if ((await readlink(path).catch(() => '')).startsWith(folder)) files.push(path);
  }
  return files;
}

t.test('a large batch that does not fit on disk is reported, and so is its delivery', async (t) => {
  const stage = await spilling(t, { bytesMax: 4 * MiB });
  t.notOk(stage.delivery.hasLarge);
  stage.send(3 * MiB);
  t.ok(stage.delivery.hasLarge);
  await until(() => stage.largeGone === 1);
  t.notOk(stage.delivery.hasLarge, 'it is not written');
  t.strictSame(stage.unwritten, []);
  stage.send(2 * MiB);
  t.strictSame(stage.unwritten, [2 * MiB]);
  stage.credit(GiB, 1_000);
  await until(() => stage.posted.length === 3);
  t.strictSame(stage.unwritten, [2 * MiB, 0]);
  t.equal(stage.largeGone, 1);
  stage.close();
  t.strictSame(stage.faults, []);
});

t.test('a close reports that a large batch is gone', async (t) => {
  const stage = await spilling(t, { bytesMax: 4 * MiB });
  stage.send(5 * MiB);
  t.strictSame(stage.unwritten, [5 * MiB]);
  stage.close();
  t.strictSame(stage.unwritten, [5 * MiB, 0]);
  t.strictSame(stage.faults, []);
});
