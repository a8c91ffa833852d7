import { RefusalError } from '../refusal-error.ts';
import { mayTake, type SharedLimit } from '../share.ts';

/** A request needs more memory than it may have now. */
export class RequestMemoryError extends RefusalError {
  override readonly name = 'RequestMemoryError';

  /** @param scope whose limit is reached */
  constructor(scope: 'user' | 'total') {
    super(
      scope === 'user'
        ? 'the requests of this user hold as much memory as those of one user may (--request_bytes_per_user_max): ' +
            'wait until some of its statements have ended, or send smaller ones'
        : 'all requests together hold as much memory as they may (--request_bytes_max): try again later',
      scope === 'user' ? 'too many' : 'unavailable',
    );
  }
}

interface UserBytes {
  readonly user: string;
  bytes: number;
  /** Reservations that are not released; the entry is deleted with the last. */
  reservations: number;
}

/**
 * The memory that requests hold, beside the rows of results: bodies, the text and parameters of statements that wait or run, and
 * what the server must remember of a request to answer it. Each byte is reserved for its user before it is held.
 */
export class RequestMemory {
  readonly #limits: SharedLimit;
  readonly #users = new Map<string, UserBytes>();
  #reservedBytes = 0;

  /** @param limits for the requests of all users, and of one */
  constructor(limits: SharedLimit) {
    this.#limits = limits;
  }

  get reservedBytes(): number {
    return this.#reservedBytes;
  }

  /**
   * Opens a reservation.
   * @throws RequestMemoryError
   */
  reserve(user: string, bytes: number): RequestReservation {
    if (bytes > 0) this.#check(this.#users.get(user)?.bytes ?? 0, bytes);
    return this.count(user, bytes);
  }

  /** Opens a reservation for what has to be held in any case: it may exceed the limits, and later ones are refused instead. */
  count(user: string, bytes: number): RequestReservation {
    let holder = this.#users.get(user);
    if (holder === undefined) {
      holder = { user, bytes: 0, reservations: 0 };
      this.#users.set(user, holder);
    }
    holder.reservations++;
    this.#add(holder, bytes);
    return new RequestReservation(this, holder, bytes);
  }

  /** For `RequestReservation`. @throws RequestMemoryError */
  grow(holder: UserBytes, bytes: number): void {
    if (bytes > 0) this.#check(holder.bytes, bytes);
    this.#add(holder, bytes);
  }

  #add(holder: UserBytes, bytes: number): void {
    holder.bytes += bytes;
    this.#reservedBytes += bytes;
  }

  /** For `RequestReservation`. */
  close(holder: UserBytes, bytes: number): void {
    holder.bytes -= bytes;
    this.#reservedBytes -= bytes;
    holder.reservations--;
    if (holder.reservations === 0) this.#users.delete(holder.user);
  }

  #check(heldBytes: number, moreBytes: number): void {
    const { max, perUserMax } = this.#limits;
    if (heldBytes + moreBytes > perUserMax) throw new RequestMemoryError('user');
    if (!mayTake(this.#limits, heldBytes, moreBytes, max - this.#reservedBytes)) throw new RequestMemoryError('total');
  }
}

/** The memory reserved for one request. */
export class RequestReservation {
  readonly #memory: RequestMemory;
  readonly #holder: UserBytes;
  #bytes: number;
  #isReleased = false;

  /** Made by `RequestMemory` alone. */
  constructor(memory: RequestMemory, holder: UserBytes, bytes: number) {
    this.#memory = memory;
    this.#holder = holder;
    this.#bytes = bytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Changes the size of the reservation; the old one stays if the new one is refused. Does nothing after `release`.
   * @throws RequestMemoryError
   */
  resize(bytes: number): void {
    if (this.#isReleased) return;
    this.#memory.grow(this.#holder, bytes - this.#bytes);
    this.#bytes = bytes;
  }

  /** Gives all of it back, for good. */
  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#memory.close(this.#holder, this.#bytes);
    this.#bytes = 0;
  }
}

/** The request memory of one query. */
export interface QueryMemory {
  readonly reservation: RequestReservation;
  /** The part of the reservation that stays from the end of the statement until the query is removed. */
  readonly keptBytes: number;
}
