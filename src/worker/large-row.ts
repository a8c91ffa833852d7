import { nextPhase, type Transitions } from '../wire/phase.ts';

/** A statement keeps the memory for large rows this long after it was granted. Then other statements have their turn. */
const grantMs = 100;

/**
 *       ┌──────────────────────────┐
 *       ▼                          │
 *     requested ──▶ granted ◀──▶ kept
 *       ▲  │           │           │
 *       │  ▼           │           │
 *     none ◀───────────┴───────────┘
 *
 * - requested: the main thread has not reserved the memory yet; the connection is paused
 * - granted: until the row is delivered, written to disk or dropped
 * - kept: for a large row that may follow soon
 */
type LargeRowPhase = 'none' | 'requested' | 'granted' | 'kept';

const transitions: Transitions<LargeRowPhase> = {
  none: ['requested'],
  requested: ['granted', 'none'],
  granted: ['kept', 'none'],
  kept: ['granted', 'requested', 'none'],
};

/** The result whose large rows need memory. */
export interface LargeRowHost {
  /** Requests so much memory of the main thread, in place of memory that is kept. Nothing is read before it is granted. */
  requestMemory(bytes: number): void;
  /** Gives the memory back. */
  releaseMemory(): void;
  /** The request was granted or withdrawn: reading can go on. */
  onMemory(): void;
}

/** The memory that a statement reserves for one large row at a time. */
export class LargeRow {
  readonly #host: LargeRowHost;
  #phase: LargeRowPhase = 'none';
  #bytes = 0;
  #grantedAt = 0;
  /** Ends `kept`. */
  #keptTimer: NodeJS.Timeout | null = null;

  constructor(host: LargeRowHost) {
    this.#host = host;
  }

  get isNone(): boolean {
    return this.#phase === 'none';
  }

  get isRequested(): boolean {
    return this.#phase === 'requested';
  }

  /** Whether memory for the next row is requested or granted. */
  get isReserved(): boolean {
    return this.#phase === 'requested' || this.#phase === 'granted';
  }

  /** Uses the memory that is kept if it suffices. To be called while no memory is reserved. */
  reserve(bytes: number): void {
    this.#cancelKeptTimer();
    if (this.#phase === 'kept' && bytes <= this.#bytes) {
      this.#moveTo('granted');
      return;
    }
    this.#moveTo('requested');
    this.#bytes = bytes;
    this.#host.requestMemory(bytes);
  }

  /** The main thread has reserved the memory. */
  granted(): void {
    if (this.#phase !== 'requested') return;
    this.#moveTo('granted');
    this.#grantedAt = performance.now();
    this.#host.onMemory();
  }

  /**
   * The large row was delivered, written or dropped. A new request for each of many rows of a megabyte would take longer than
   * receiving them.
   * @param mayKeep whether further rows may follow
   */
  gone(mayKeep: boolean): void {
    if (this.#phase === 'none' || this.#phase === 'requested') return;
    const leftMs = this.#grantedAt + grantMs - performance.now();
    if (leftMs <= 0 || !mayKeep) {
      this.release();
      return;
    }
    if (this.#phase !== 'kept') this.#moveTo('kept');
    this.#keptTimer ??= setTimeout(() => this.release(), leftMs);
  }

  release(): void {
    const phase = this.#phase;
    if (phase === 'none') return;
    this.#cancelKeptTimer();
    this.#moveTo('none');
    this.#host.releaseMemory();
    if (phase === 'requested') this.#host.onMemory();
  }

  #cancelKeptTimer(): void {
    if (this.#keptTimer !== null) clearTimeout(this.#keptTimer);
    this.#keptTimer = null;
  }

  #moveTo(phase: LargeRowPhase): void {
    this.#phase = nextPhase(transitions, this.#phase, phase);
  }
}
