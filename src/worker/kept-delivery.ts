import type { KeepRequest, KeptBatch } from '../wire/kept-rows.ts';
import { nextPhase, type Transitions } from '../wire/phase.ts';
import type { Batch } from '../wire/statement.ts';
import type { BatchDelivery, DeliveryHost } from './batch-delivery.ts';
import { type KeptColumns, KeptFile } from './kept-file.ts';
import { PendingBatches } from './pending-batches.ts';
import type { CollectedBatch } from './row-collector.ts';

/** The most bytes of batches that wait to be written. With more, the database is paused. */
const pendingBytesMax = 2 * 1024 * 1024;

/**
 *     open ──▶ draining ──▶ closed
 *       │                     ▲
 *       └─────────────────────┘
 *
 * - open: batches are written as they come
 * - draining: the last batch has been sent, and the connection is free for other statements
 */
type KeptDeliveryPhase = 'open' | 'draining' | 'closed';

const transitions: Transitions<KeptDeliveryPhase> = {
  open: ['draining', 'closed'],
  draining: ['closed'],
  closed: [],
};

export interface KeptDeliveryHost extends DeliveryHost {
  /** A batch is on disk. */
  kept(batch: KeptBatch): void;
}

/** Writes the batches of one statement to the folder of its kept result. Credit is for bytes on disk. */
export class KeptDelivery implements BatchDelivery {
  readonly rowsWanted = Number.MAX_SAFE_INTEGER;
  readonly #host: KeptDeliveryHost;
  readonly #file: Promise<KeptFile>;
  readonly #pending = new PendingBatches<CollectedBatch>();
  #phase: KeptDeliveryPhase = 'open';
  #creditBytes: number;
  #isPaused = false;
  #isWriting = false;
  /** See `end`; null once it was called. */
  #report: ((rowsToCome: number) => void) | null = null;

  constructor(request: KeepRequest, columns: KeptColumns, creditBytes: number, host: KeptDeliveryHost) {
    this.#creditBytes = creditBytes;
    this.#host = host;
    this.#file = KeptFile.create(request, columns);
    this.#file.catch((error: NodeJS.ErrnoException) => this.#fail(error));
  }

  get isSpilling(): boolean {
    return this.#phase !== 'closed';
  }

  get hasLarge(): boolean {
    return this.#pending.largeBytes > 0;
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  send(batch: Batch): void {
    if (this.#phase === 'closed') return;
    this.#pending.push(batch as CollectedBatch);
    this.#advance();
    if (this.#pending.bytes > pendingBytesMax && !this.#isPaused) {
      this.#isPaused = true;
      this.#host.pause();
    }
  }

  credit(bytes: number): void {
    this.#creditBytes += bytes;
    this.#advance();
  }

  /** @param report called with 0 when all rows are on disk, and a loss of power cannot lose them */
  end(report: (rowsToCome: number) => void): void {
    this.#resume();
    this.#moveTo('draining');
    this.#report = report;
    this.#advance();
  }

  close(): void {
    if (this.#phase === 'closed') return;
    this.#moveTo('closed');
    const { hasLarge } = this;
    this.#pending.clear();
    if (hasLarge) this.#host.largeGone();
    // The database cannot end the statement while nobody reads its rows.
    this.#resume();
  }

  #advance(): void {
    if (this.#phase === 'closed' || this.#isWriting) return;
    const batch = this.#pending.first;
    if (batch === undefined) {
      if (this.#phase === 'draining') this.#finish();
      return;
    }
    if (this.#creditBytes <= 0) return;
    this.#creditBytes -= batch.buffer.byteLength;
    this.#write(async (file) => this.#written(await file.write(batch)));
  }

  #finish(): void {
    this.#write(async (file) => {
      await file.sync();
      this.#synced();
    });
  }

  #write(write: (file: KeptFile) => Promise<void>): void {
    this.#isWriting = true;
    this.#file.then(write).then(
      () => {
        this.#isWriting = false;
        this.#advance();
      },
      (error: NodeJS.ErrnoException) => {
        this.#isWriting = false;
        this.#fail(error);
      },
    );
  }

  #written(batch: KeptBatch): void {
    if (this.#phase === 'closed') return;
    const { hasLarge } = this;
    this.#pending.dropFirst();
    if (hasLarge && !this.hasLarge) this.#host.largeGone();
    this.#host.kept(batch);
    if (this.#pending.bytes <= pendingBytesMax / 2) this.#resume();
  }

  #synced(): void {
    const report = this.#report;
    if (this.#phase !== 'draining' || report === null) return;
    this.#report = null;
    this.#moveTo('closed');
    report(0);
    this.#host.done();
  }

  #fail(error: NodeJS.ErrnoException): void {
    if (this.#phase === 'closed') return;
    this.close();
    this.#host.failed(error);
  }

  #resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#host.resume();
  }

  #moveTo(phase: KeptDeliveryPhase): void {
    this.#phase = nextPhase(transitions, this.#phase, phase);
  }
}
