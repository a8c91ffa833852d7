import type { Config } from '../config/config.ts';
import { defaultPerUserMax, mayTake, type SharedLimit } from '../share.ts';

/** The window of rows, in bytes, that every running query has at least. The rest of the memory is shared by need. */
const floorBytesMax = 256 * 1024;

export type BuffersOptions = Pick<Config['memory'], 'bufferBytesMax' | 'queryBufferBytesMax' | 'resultsBytesMax'>;

/** The memory of one user's queries. The entry is deleted with the last of them. */
interface UserBytes {
  readonly user: string;
  shares: number;
  reservedBytes: number;
  heldBytes: number;
}

/**
 * The memory for the rows of all queries, shared among users so that no user can take all of it. Windows grow into the first half
 * of the budget only, for queries that are read fast. The second half is for the smallest windows of new queries.
 */
export class Buffers {
  /** Called when memory has been released. */
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

  /** The window that every query begins with, in bytes (see `MemoryReservation`). */
  get floorBytes(): number {
    return Math.min(floorBytesMax, this.#queryBytesMax);
  }

  /** Memory that is reserved, whether or not rows fill it. */
  get reservedBytes(): number {
    return this.#reservedBytes;
  }

  /** Memory that rows use. */
  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** The most that one user may reserve. */
  get perUserMax(): number {
    return this.#reservable.perUserMax;
  }

  /** Memory that is not reserved; negative if large rows exceed the budget. */
  get freeBytes(): number {
    return this.#bytesMax - this.#reservedBytes;
  }

  /** Memory that a user has reserved. */
  reservedBytesOf(user: string): number {
    return this.#users.get(user)?.reservedBytes ?? 0;
  }

  /** Whether a user may reserve `bytes` more. The default is the window of one more query. */
  hasRoomFor(user: string, bytes = this.floorBytes): boolean {
    return mayTake(this.#reservable, this.reservedBytesOf(user), bytes, this.#freeWithinShares());
  }

  /** Free memory, with no user counted for more than its limit. A few large rows can exceed the limit. */
  #freeWithinShares(): number {
    if (this.freeBytes >= 0) return this.freeBytes;
    const { max, perUserMax } = this.#reservable;
    let free = max;
    const reserved = [...this.#users.values()].map(({ reservedBytes }) => reservedBytes).sort((a, b) => b - a);
    for (const bytes of reserved) free -= Math.min(bytes, (free * perUserMax) / max);
    return free;
  }

  /** The size to which a window may grow. */
  grown(windowBytes: number): number {
    const wanted = Math.min(2 * windowBytes, this.#queryBytesMax);
    return this.#reservedBytes + wanted - windowBytes <= this.#bytesMax / 2 ? wanted : windowBytes;
  }

  /** The size to which a window must shrink, given its free bytes. */
  shrunk(windowBytes: number, freeBytes: number): number {
    if (this.#reservedBytes <= this.#bytesMax / 2) return windowBytes;
    return Math.max(windowBytes - freeBytes, Math.min(windowBytes, this.floorBytes));
  }

  /** For `MemoryReservation`. */
  open(user: string): UserBytes {
    let bytes = this.#users.get(user);
    if (bytes === undefined) {
      bytes = { user, shares: 0, reservedBytes: 0, heldBytes: 0 };
      this.#users.set(user, bytes);
    }
    bytes.shares++;
    return bytes;
  }

  /** For `MemoryReservation`. */
  close(bytes: UserBytes): void {
    bytes.shares--;
    if (bytes.shares === 0) this.#users.delete(bytes.user);
  }

  /** For `MemoryReservation`. */
  change(bytes: UserBytes, reservedBytes: number, heldBytes: number): void {
    bytes.reservedBytes += reservedBytes;
    bytes.heldBytes += heldBytes;
    this.#reservedBytes += reservedBytes;
    this.#heldBytes += heldBytes;
    if (reservedBytes < 0) this.onRoom?.();
  }

  /**
   * For `MemoryReservation`. Whether all rows together exceed `heldBytesMax`, and this user holds more than an equal part of it. So the queries
   * of a user who holds little do not fail because of others.
   */
  isOver({ heldBytes }: UserBytes): boolean {
    return this.#heldBytes > this.heldBytesMax && heldBytes * this.#users.size > this.heldBytesMax;
  }
}

/** The memory that is reserved and held for one query, or for one large row. */
export class MemoryReservation {
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

  /** Whether the query must fail (see `Buffers.isOver`). */
  get isOver(): boolean {
    return this.#buffers.isOver(this.#user);
  }

  /**
   * @param reservedBytes reserved for the query, including `heldBytes`
   * @param heldBytes used by its rows
   */
  set(reservedBytes: number, heldBytes: number): void {
    if (this.#isClosed) return;
    const [reserved, held] = [reservedBytes - this.#reservedBytes, heldBytes - this.#heldBytes];
    if (reserved === 0 && held === 0) return;
    this.#reservedBytes = reservedBytes;
    this.#heldBytes = heldBytes;
    this.#buffers.change(this.#user, reserved, held);
  }

  /** Releases the memory for good. */
  close(): void {
    if (this.#isClosed) return;
    this.set(0, 0);
    this.#isClosed = true;
    this.#buffers.close(this.#user);
  }
}
