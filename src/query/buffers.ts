import type { Config } from '../config/config.ts';
import { defaultPerUserMax, mayTake, type SharedLimit } from '../share.ts';

/** Every query that runs has room for so many bytes of rows, however many there are; the rest is shared out by need. */
const floorBytesMax = 256 * 1024;

export type BuffersOptions = Pick<Config['memory'], 'bufferBytesMax' | 'queryBufferBytesMax' | 'resultsBytesMax'>;

/** What the queries of one user have; forgotten with the last of them. */
interface UserBytes {
  readonly user: string;
  shares: number;
  reservedBytes: number;
  heldBytes: number;
}

/**
 * The memory for the rows of all queries, shared among users so that one cannot take all of it. Half of the budget is for the least that each query needs, so that new ones find
 * room beside those that have grown; the other half lets those grow that are read fast.
 */
export class Buffers {
  /** Called when there may be room that there was not. */
  onRoom: (() => void) | null = null;
  readonly heldBytesMax: number;
  readonly #bytesMax: number;
  readonly #queryBytesMax: number;
  readonly #reservable: SharedLimit;
  readonly #users = new Map<string, UserBytes>();
  #reservedBytes = 0;
  #heldBytes = 0;

  constructor({ bufferBytesMax, queryBufferBytesMax, resultsBytesMax }: BuffersOptions) {
    this.#bytesMax = bufferBytesMax;
    this.heldBytesMax = resultsBytesMax;
    this.#queryBytesMax = queryBufferBytesMax;
    this.#reservable = { max: bufferBytesMax, perUserMax: defaultPerUserMax(bufferBytesMax) };
  }

  /** The window that every query begins with, in bytes (see `Share`). */
  get floorBytes(): number {
    return Math.min(floorBytesMax, this.#queryBytesMax);
  }

  /** What is set aside, be it filled or not. */
  get reservedBytes(): number {
    return this.#reservedBytes;
  }

  /** What rows take now. */
  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** The most that one user may reserve. */
  get perUserMax(): number {
    return this.#reservable.perUserMax;
  }

  /** What is not reserved; negative if large rows take more than the budget. */
  get freeBytes(): number {
    return this.#bytesMax - this.#reservedBytes;
  }

  /** What a user has reserved. */
  reservedBytesOf(user: string): number {
    return this.#users.get(user)?.reservedBytes ?? 0;
  }

  /** Whether a user may reserve so much more; left out: for one more query. */
  hasRoomFor(user: string, bytes = this.floorBytes): boolean {
    return mayTake(this.#reservable, this.reservedBytesOf(user), bytes, this.#freeWithinShares());
  }

  /** What is free if no user counts with more than its share, which few rows of great size can exceed. */
  #freeWithinShares(): number {
    if (this.freeBytes >= 0) return this.freeBytes;
    const { max, perUserMax } = this.#reservable;
    let free = max;
    const reserved = [...this.#users.values()].map(({ reservedBytes }) => reservedBytes).sort((a, b) => b - a);
    for (const bytes of reserved) free -= Math.min(bytes, (free * perUserMax) / max);
    return free;
  }

  /** What a window of that size may grow to. */
  grown(windowBytes: number): number {
    const wanted = Math.min(2 * windowBytes, this.#queryBytesMax);
    return this.#reservedBytes + wanted - windowBytes <= this.#bytesMax / 2 ? wanted : windowBytes;
  }

  /** What a window of that size is to shrink to, now that so much of it is free. */
  shrunk(windowBytes: number, freeBytes: number): number {
    if (this.#reservedBytes <= this.#bytesMax / 2) return windowBytes;
    return Math.max(windowBytes - freeBytes, Math.min(windowBytes, this.floorBytes));
  }

  /** For `Share`. */
  open(user: string): UserBytes {
    let bytes = this.#users.get(user);
    if (bytes === undefined) {
      bytes = { user, shares: 0, reservedBytes: 0, heldBytes: 0 };
      this.#users.set(user, bytes);
    }
    bytes.shares++;
    return bytes;
  }

  /** For `Share`. */
  close(bytes: UserBytes): void {
    bytes.shares--;
    if (bytes.shares === 0) this.#users.delete(bytes.user);
  }

  /** For `Share`. */
  change(bytes: UserBytes, reservedBytes: number, heldBytes: number): void {
    bytes.reservedBytes += reservedBytes;
    bytes.heldBytes += heldBytes;
    this.#reservedBytes += reservedBytes;
    this.#heldBytes += heldBytes;
    if (reservedBytes < 0) this.onRoom?.();
  }

  /**
   * For `Share`. Whether all rows take more than they may at most, and this user's more than an equal part of it: a user who holds
   * little does not fail on account of others.
   */
  isOver({ heldBytes }: UserBytes): boolean {
    return this.#heldBytes > this.heldBytesMax && heldBytes * this.#users.size > this.heldBytesMax;
  }
}

/** What one query has of the buffers. */
export class Share {
  readonly #buffers: Buffers;
  readonly #user: UserBytes;
  #reservedBytes = 0;
  #heldBytes = 0;
  #isClosed = false;

  /** @param user whose query it is */
  constructor(buffers: Buffers, user: string) {
    this.#buffers = buffers;
    this.#user = buffers.open(user);
  }

  /** Whether rows have to be given up (see `Buffers.isOver`). */
  get isOver(): boolean {
    return this.#buffers.isOver(this.#user);
  }

  /**
   * @param reservedBytes set aside for the query, with what it holds
   * @param heldBytes taken by its rows
   */
  set(reservedBytes: number, heldBytes: number): void {
    if (this.#isClosed) return;
    const [reserved, held] = [reservedBytes - this.#reservedBytes, heldBytes - this.#heldBytes];
    if (reserved === 0 && held === 0) return;
    this.#reservedBytes = reservedBytes;
    this.#heldBytes = heldBytes;
    this.#buffers.change(this.#user, reserved, held);
  }

  /** Gives all of it back, for good. */
  close(): void {
    if (this.#isClosed) return;
    this.set(0, 0);
    this.#isClosed = true;
    this.#buffers.close(this.#user);
  }
}
