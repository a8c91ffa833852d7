import type { SpillLimits } from '../wire/messages.ts';
import type { SpillUsage } from '../wire/spill-usage.ts';
import { type Batch, largeRowBytesMin } from '../wire/statement.ts';
import { SpillFile } from './spill-file.ts';

/** Batches that wait to be written; the database waits when there are more. */
const pendingBytesMax = 512 * 1024;
/** Fewer rows make no batch on disk, however few the reader wants at once. */
const diskRowsMin = 1_000;
/** What is known of each batch in a file is kept in memory, and so there may not be more. */
const extentsMax = 65_536;
/** How often it is looked whether others have made room. */
const roomRetryMs = 100;

/** What a delivery needs of the execution whose batches it hands over. */
export interface DeliveryHost {
  post(batch: Batch, fromDisk: boolean): void;
  spilled(rows: number, bytes: number): void;
  /** A large batch of so many bytes stays in memory because there is no room for it on disk; 0: it is gone. */
  unwritten(bytes: number): void;
  /** A large batch that was about to be written is written, handed over or dropped. */
  largeGone(): void;
  /** The reader takes no more: stop the database. */
  pause(): void;
  resume(): void;
  /** The reader waits for rows, be they few. */
  hungry(): void;
  /** Rows are lost; nothing follows. */
  failed(error: NodeJS.ErrnoException): void;
  /** All has been handed over. */
  done(): void;
}

/**
 * Hands the batches of one statement to the main thread, in order, as far as the reader's credit goes. States: `direct` (batches
 * go at once; without credit the database is paused), `spilling` (the reader has held up the database for a while: batches go to a
 * file, and from there to the reader), closed. From `spilling` it goes back to `direct` when the reader has caught up.
 */
export class Delivery {
  readonly #host: DeliveryHost;
  readonly #limits: SpillLimits;
  readonly #usage: SpillUsage;
  #state: 'direct' | 'spilling' | 'closed' = 'direct';
  /** Of a batch on disk, as it is to fit into the reader's buffer when it comes back. */
  readonly #rowsMax: number;
  #creditBytes: number;
  #creditRows: number;
  #paused = false;
  /** Until the database has been held up for long enough. */
  #spillTimer: NodeJS.Timeout | null = null;
  #roomTimer: NodeJS.Timeout | null = null;
  #file: SpillFile | null = null;
  /** Batches behind those in the file; the first may be about to be written. */
  readonly #pending: Batch[] = [];
  #pendingBytes = 0;
  /** Of the large batch in `#pending`; there is one at most, as the database is paused behind it. */
  #largeBytes = 0;
  /** The host has been told that the large batch is not being written. */
  #isUnwritten = false;
  #writing = false;
  /** A write has failed when all that is pending was in memory: it stays there. */
  #isDiskBad = false;
  #reading = false;
  /** Rows in the file and in `#pending` that have not been handed over. */
  #rowsLeft = 0;
  #tellEnd: ((rowsToCome: number) => void) | null = null;
  #ended = false;

  constructor(creditBytes: number, creditRows: number, limits: SpillLimits, usage: SpillUsage, host: DeliveryHost) {
    this.#creditBytes = creditBytes;
    this.#creditRows = creditRows;
    this.#rowsMax = Math.max(creditRows, diskRowsMin);
    this.#limits = limits;
    this.#usage = usage;
    this.#host = host;
  }

  get isSpilling(): boolean {
    return this.#state === 'spilling';
  }

  /** Whether the database has been stopped. */
  get isPaused(): boolean {
    return this.#paused;
  }

  /** Whether a large batch waits to be written, or is being written. */
  get hasLarge(): boolean {
    return this.#largeBytes > 0;
  }

  /** Rows that the next batch may have. */
  get rowsWanted(): number {
    return this.#state === 'spilling' ? this.#rowsMax : this.#creditRows;
  }

  send(batch: Batch): void {
    if (this.#state === 'closed') return;
    if (this.#state === 'spilling') {
      this.#pending.push(batch);
      this.#pendingBytes += batch.buffer.byteLength;
      if (batch.buffer.byteLength >= largeRowBytesMin) this.#largeBytes = batch.buffer.byteLength;
      this.#rowsLeft += batch.rows;
      this.#write();
      if (this.#pendingBytes > pendingBytesMax) this.#pause();
      return;
    }
    this.#post(batch, false);
    if (this.#hasCredit) return;
    this.#pause();
    if (this.#limits.bytesMax === 0) return;
    this.#spillTimer ??= setTimeout(() => {
      this.#spillTimer = null;
      this.#state = 'spilling';
      this.#resume();
    }, this.#limits.waitMs);
  }

  /** The reader takes so much more. */
  credit(bytes: number, rows: number): void {
    this.#creditBytes += bytes;
    this.#creditRows += rows;
    if (!this.#hasCredit) return;
    if (this.#spillTimer !== null) clearTimeout(this.#spillTimer);
    this.#spillTimer = null;
    if (this.#state === 'spilling') this.#advance();
    else this.#resume();
  }

  /**
   * The last batch, if there is one, has been sent. To be called while spilling only.
   * @param tellEnd is called when all is on disk or handed over, with the number of rows that are still to come
   */
  end(tellEnd: (rowsToCome: number) => void): void {
    // The connection is another's from now on.
    this.#resume();
    this.#ended = true;
    this.#tellEnd = tellEnd;
    this.#advance();
  }

  /** Drops what is left. Nothing is called any more. */
  close(): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    for (const timer of [this.#spillTimer, this.#roomTimer]) if (timer !== null) clearTimeout(timer);
    this.#pending.length = 0;
    this.#forgetLarge();
    this.#closeFile();
    // The database cannot end while nobody reads what it sends.
    this.#resume();
  }

  get #hasCredit(): boolean {
    return this.#creditBytes > 0 && this.#creditRows > 0;
  }

  #post(batch: Batch, fromDisk: boolean): void {
    // To be asked before the memory is given away, since it is then no longer ours to measure.
    this.#creditBytes -= batch.buffer.byteLength;
    this.#creditRows -= batch.rows;
    this.#host.post(batch, fromDisk);
  }

  #pause(): void {
    if (this.#paused || this.#ended) return;
    this.#paused = true;
    this.#host.pause();
  }

  #resume(): void {
    if (!this.#paused || this.#ended) return;
    this.#paused = false;
    this.#host.resume();
  }

  /** Writes the first of what is pending, if there is room for it. */
  #write(): void {
    const batch = this.#pending[0];
    if (this.#writing || batch === undefined || this.#roomTimer !== null || this.#isDiskBad) return;
    const bytes = batch.buffer.byteLength;
    const file = this.#file;
    // When the file is full, it stays so until it has been read and is given up.
    const isFull = file !== null && (file.bytes + bytes > this.#limits.bytesMax || file.unread >= extentsMax);
    if (isFull || bytes > this.#limits.bytesMax) {
      this.#reportUnwritten();
      return;
    }
    if (!this.#usage.reserve(bytes)) {
      this.#reportUnwritten();
      this.#roomTimer = setTimeout(() => {
        this.#roomTimer = null;
        this.#write();
      }, roomRetryMs);
      return;
    }
    this.#writing = true;
    this.#writeTo(file, batch).then(
      () => this.#written(batch),
      (error: NodeJS.ErrnoException) => {
        this.#writing = false;
        this.#usage.release(bytes);
        // While the database still sends, what is pending would hold it up for as long as the reader likes.
        this.#isDiskBad = this.#ended && this.#state === 'spilling';
        if (this.#isDiskBad) {
          this.#reportUnwritten();
          this.#advance();
        } else this.#fail(error);
      },
    );
  }

  async #writeTo(file: SpillFile | null, batch: Batch): Promise<void> {
    this.#file = file ?? (await SpillFile.create(this.#limits.folder));
    await this.#file.write(batch);
  }

  #written(batch: Batch): void {
    this.#writing = false;
    if (this.#state === 'closed') {
      this.#closeFile();
      return;
    }
    this.#drop();
    this.#host.spilled(batch.rows, batch.length);
    this.#write();
    this.#advance();
  }

  /** Takes the first batch from what is pending. */
  #drop(): void {
    const bytes = this.#pending.shift()?.buffer.byteLength ?? 0;
    this.#pendingBytes -= bytes;
    if (bytes >= largeRowBytesMin) this.#forgetLarge();
    if (this.#pendingBytes <= pendingBytesMax / 2) this.#resume();
  }

  #reportUnwritten(): void {
    if (this.#largeBytes === 0 || this.#isUnwritten) return;
    this.#isUnwritten = true;
    this.#host.unwritten(this.#largeBytes);
  }

  #forgetLarge(): void {
    if (this.#largeBytes === 0) return;
    const wasUnwritten = this.#isUnwritten;
    this.#largeBytes = 0;
    this.#isUnwritten = false;
    if (wasUnwritten) this.#host.unwritten(0);
    else this.#host.largeGone();
  }

  /** Does whatever can be done next. */
  #advance(): void {
    this.#pump();
    if (this.#state !== 'spilling' || !this.#ended) return;
    // What is on its way to disk may yet fail; what waits for room there is as good here.
    if (this.#tellEnd !== null && !this.#writing) {
      const tellEnd = this.#tellEnd;
      this.#tellEnd = null;
      tellEnd(this.#rowsLeft);
    }
    if (this.#tellEnd !== null || this.#rowsLeft > 0) return;
    this.close();
    this.#host.done();
  }

  /** Hands over what has been held back, as far as credit goes. */
  #pump(): void {
    while (this.#state === 'spilling' && this.#hasCredit && !this.#reading) {
      if (this.#file !== null && this.#file.unread > 0) {
        this.#read(this.#file);
        return;
      }
      // The first of what is pending comes from the file when it is there.
      if (this.#writing) return;
      const [batch] = this.#pending;
      if (batch === undefined) {
        this.#caughtUp();
        return;
      }
      // Before it is given away, and no more ours to measure.
      this.#drop();
      this.#rowsLeft -= batch.rows;
      this.#post(batch, false);
    }
  }

  #read(file: SpillFile): void {
    this.#reading = true;
    file.read().then(
      (batch) => {
        this.#reading = false;
        if (this.#state === 'closed') return;
        this.#rowsLeft -= batch.rows;
        this.#post(batch, true);
        if (file.unread === 0 && !this.#writing) this.#closeFile();
        this.#write();
        this.#advance();
      },
      (error: NodeJS.ErrnoException) => {
        this.#reading = false;
        this.#fail(error);
      },
    );
  }

  /** The reader has all that there is. */
  #caughtUp(): void {
    if (this.#ended) return;
    this.#state = 'direct';
    this.#closeFile();
    this.#resume();
    this.#host.hungry();
  }

  #fail(error: NodeJS.ErrnoException): void {
    if (this.#state === 'closed') {
      this.#closeFile();
      return;
    }
    this.close();
    this.#host.failed(error);
  }

  /** Gives the disk back; while a write is under way, that does it when it is done. */
  #closeFile(): void {
    if (this.#writing) return;
    const file = this.#file;
    this.#file = null;
    if (file === null) return;
    this.#usage.release(file.bytes);
    // There is nothing in it that anybody wants, and so nothing to be lost by an error.
    file.close().catch(() => {});
  }
}
