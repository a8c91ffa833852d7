import type { SpillLimits } from '../wire/messages.ts';
import { nextPhase, type Transitions } from '../wire/phase.ts';
import type { UserSpillUsage } from '../wire/spill-usage.ts';
import type { Batch } from '../wire/statement.ts';
import type { BatchDelivery, DeliveryHost } from './batch-delivery.ts';
import { PendingBatches } from './pending-batches.ts';
import { SpillFile } from './spill-file.ts';

/** The most bytes of batches that wait to be written. With more, the database is paused. */
const pendingBytesMax = 512 * 1024;
/** A batch on disk may have this many rows, even if the reader's credit is for fewer. */
const diskRowsMin = 1_000;
/** The most batches in a file, since the position of each is kept in memory. */
const extentsMax = 65_536;
/** How often a reservation of disk space is retried that exceeded the limit of all statements. */
const roomRetryMs = 100;

/**
 *     direct ◀──▶ spilling ──▶ draining
 *       │            │            │
 *       └────────────┼────────────┘
 *                    ▼
 *                 closed
 *
 * - direct: batches are delivered at once; without credit the database is paused
 * - spilling: the database was paused for a while; batches are written to a file and delivered from there. When the reader has
 *   caught up, the delivery is direct again
 * - draining: the last batch has been sent, and the connection is free for other statements
 */
type DeliveryPhase = 'direct' | 'spilling' | 'draining' | 'closed';

const transitions: Transitions<DeliveryPhase> = {
  direct: ['spilling', 'closed'],
  spilling: ['direct', 'draining', 'closed'],
  draining: ['closed'],
  closed: [],
};

/** Delivers the batches of one statement to the main thread, in order, as far as the reader's credit goes. */
export class Delivery implements BatchDelivery {
  readonly #host: DeliveryHost;
  readonly #limits: SpillLimits;
  readonly #usage: UserSpillUsage;
  #phase: DeliveryPhase = 'direct';
  /** The most rows of a batch on disk, which must fit into the reader's buffer when it is read back. */
  readonly #rowsMax: number;
  #creditBytes: number;
  #creditRows: number;
  #isPaused = false;
  /** Runs while the database is paused in `direct`; when it fires, spilling begins. */
  #spillTimer: NodeJS.Timeout | null = null;
  #roomTimer: NodeJS.Timeout | null = null;
  #file: SpillFile | null = null;
  /** Batches after those in the file. The first one may be being written. */
  readonly #pending = new PendingBatches();
  /** `unwritten` was called for the large batch. */
  #isUnwritten = false;
  #isWriting = false;
  /** A write has failed while draining: the pending batches stay in memory. */
  #hasWriteFailed = false;
  #isReading = false;
  /** Rows in the file and in `#pending`. */
  #rowsLeft = 0;
  /** See `end`; null once it was called. */
  #report: ((rowsToCome: number) => void) | null = null;

  constructor(creditBytes: number, creditRows: number, limits: SpillLimits, usage: UserSpillUsage, host: DeliveryHost) {
    this.#creditBytes = creditBytes;
    this.#creditRows = creditRows;
    this.#rowsMax = Math.max(creditRows, diskRowsMin);
    this.#limits = limits;
    this.#usage = usage;
    this.#host = host;
  }

  get isSpilling(): boolean {
    return this.#phase === 'spilling' || this.#phase === 'draining';
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  get hasLarge(): boolean {
    return this.#pending.largeBytes > 0;
  }

  get rowsWanted(): number {
    return this.isSpilling ? this.#rowsMax : this.#creditRows;
  }

  send(batch: Batch): void {
    if (this.#phase === 'closed') return;
    if (this.isSpilling) {
      this.#pending.push(batch);
      this.#rowsLeft += batch.rows;
      this.#write();
      if (this.#pending.bytes > pendingBytesMax) this.#pause();
      return;
    }
    this.#deliver(batch, false);
    if (this.#hasCredit) return;
    this.#pause();
    if (this.#limits.bytesMax === 0) return;
    this.#spillTimer ??= setTimeout(() => {
      this.#spillTimer = null;
      this.#moveTo('spilling');
      this.#resume();
    }, this.#limits.waitMs);
  }

  credit(bytes: number, rows: number): void {
    this.#creditBytes += bytes;
    this.#creditRows += rows;
    if (!this.#hasCredit) return;
    if (this.#spillTimer !== null) clearTimeout(this.#spillTimer);
    this.#spillTimer = null;
    if (this.isSpilling) this.#advance();
    else this.#resume();
  }

  end(report: (rowsToCome: number) => void): void {
    // From now on the connection belongs to the next statement.
    this.#resume();
    this.#moveTo('draining');
    this.#report = report;
    this.#advance();
  }

  close(): void {
    if (this.#phase === 'closed') return;
    this.#moveTo('closed');
    for (const timer of [this.#spillTimer, this.#roomTimer]) if (timer !== null) clearTimeout(timer);
    const { hasLarge } = this;
    this.#pending.clear();
    if (hasLarge) this.#largeGone();
    this.#closeFile();
    // The database cannot end the statement while nobody reads its rows.
    this.#resume();
  }

  get #hasCredit(): boolean {
    return this.#creditBytes > 0 && this.#creditRows > 0;
  }

  #deliver(batch: Batch, fromDisk: boolean): void {
    // Before the call: the buffer has no length once it is transferred.
    this.#creditBytes -= batch.buffer.byteLength;
    this.#creditRows -= batch.rows;
    this.#host.deliver(batch, fromDisk);
  }

  #pause(): void {
    if (this.#isPaused || this.#phase === 'draining') return;
    this.#isPaused = true;
    this.#host.pause();
  }

  #resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#host.resume();
  }

  /** Writes the first pending batch, if there is disk space for it. */
  #write(): void {
    const batch = this.#pending.first;
    if (this.#isWriting || batch === undefined || this.#roomTimer !== null || this.#hasWriteFailed) return;
    const bytes = batch.buffer.byteLength;
    const file = this.#file;
    // The space of batches that were read is only freed with the whole file.
    const isFull = (file?.bytes ?? 0) + bytes > this.#limits.bytesMax || (file?.unread ?? 0) >= extentsMax;
    if (isFull || !this.#usage.reserve(bytes, file === null ? 1 : 0)) {
      this.#reportUnwritten();
      if (!isFull) this.#retryWrite();
      return;
    }
    this.#isWriting = true;
    this.#writeTo(file, batch).then(
      () => this.#written(batch),
      (error: NodeJS.ErrnoException) => {
        this.#isWriting = false;
        this.#usage.release(bytes, this.#file === null ? 1 : 0);
        // Before the end of the statement, pending batches that cannot be written would pause the database indefinitely.
        this.#hasWriteFailed = this.#phase === 'draining';
        if (this.#hasWriteFailed) {
          this.#reportUnwritten();
          this.#advance();
        } else this.#fail(error);
      },
    );
  }

  #retryWrite(): void {
    this.#roomTimer = setTimeout(() => {
      this.#roomTimer = null;
      this.#write();
    }, roomRetryMs);
  }

  async #writeTo(file: SpillFile | null, batch: Batch): Promise<void> {
    this.#file = file ?? (await SpillFile.create(this.#limits.folder));
    await this.#file.write(batch);
  }

  #written(batch: Batch): void {
    this.#isWriting = false;
    if (this.#phase === 'closed') {
      this.#closeFile();
      return;
    }
    this.#drop();
    this.#host.spilled(batch.rows, batch.length);
    this.#write();
    this.#advance();
  }

  #drop(): void {
    const { hasLarge } = this;
    this.#pending.dropFirst();
    if (hasLarge && !this.hasLarge) this.#largeGone();
    if (this.#pending.bytes <= pendingBytesMax / 2) this.#resume();
  }

  #reportUnwritten(): void {
    if (!this.hasLarge || this.#isUnwritten) return;
    this.#isUnwritten = true;
    this.#host.unwritten(this.#pending.largeBytes);
  }

  #largeGone(): void {
    const wasUnwritten = this.#isUnwritten;
    this.#isUnwritten = false;
    if (wasUnwritten) this.#host.unwritten(0);
    else this.#host.largeGone();
  }

  /** Delivers what can be delivered; while draining, reports the end, and closes after the last row. */
  #advance(): void {
    this.#pump();
    if (this.#phase !== 'draining') return;
    // A write under way may still fail. Batches that wait for disk space are safe in memory.
    if (this.#report !== null && !this.#isWriting) {
      const report = this.#report;
      this.#report = null;
      report(this.#rowsLeft);
    }
    if (this.#report !== null || this.#rowsLeft > 0) return;
    this.close();
    this.#host.done();
  }

  /** Delivers batches from the file and from memory, as far as credit goes. */
  #pump(): void {
    while (this.isSpilling && this.#hasCredit && !this.#isReading) {
      if (this.#file !== null && this.#file.unread > 0) {
        this.#read(this.#file);
        return;
      }
      // The first pending batch is read from the file once it is written.
      if (this.#isWriting) return;
      const batch = this.#pending.first;
      if (batch === undefined) {
        this.#caughtUp();
        return;
      }
      // Before it is delivered, see `PendingBatches.dropFirst`.
      this.#drop();
      this.#rowsLeft -= batch.rows;
      this.#deliver(batch, false);
    }
  }

  #read(file: SpillFile): void {
    this.#isReading = true;
    file.read().then(
      (batch) => {
        this.#isReading = false;
        if (this.#phase === 'closed') return;
        this.#rowsLeft -= batch.rows;
        this.#deliver(batch, true);
        if (file.unread === 0 && !this.#isWriting) this.#closeFile();
        this.#write();
        this.#advance();
      },
      (error: NodeJS.ErrnoException) => {
        this.#isReading = false;
        this.#fail(error);
      },
    );
  }

  /** The reader has everything that was sent. */
  #caughtUp(): void {
    if (this.#phase === 'draining') return;
    this.#moveTo('direct');
    this.#closeFile();
    this.#resume();
    this.#host.onDrain();
  }

  #fail(error: NodeJS.ErrnoException): void {
    if (this.#phase === 'closed') this.#closeFile();
    else {
      this.close();
      this.#host.failed(error);
    }
  }

  /** Frees the disk space. While a write is under way, its completion does so. */
  #closeFile(): void {
    if (this.#isWriting) return;
    const file = this.#file;
    this.#file = null;
    if (file === null) return;
    this.#usage.release(file.bytes, 0);
    // Nobody needs the content any more, so an error loses nothing.
    void Promise.allSettled([file.close()]).then(() => this.#usage.release(0, 1));
  }

  #moveTo(phase: DeliveryPhase): void {
    this.#phase = nextPhase(transitions, this.#phase, phase);
  }
}
