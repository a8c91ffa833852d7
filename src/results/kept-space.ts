import { mayTake, type SharedLimit } from '../share.ts';
import { type Cause, causes } from '../wire/failures.ts';

/** A statement that needs less is not begun either. */
const smallestBytes = 512 * 1024;

/** Counts the disk space of kept results, which users share. */
export class KeptSpace {
  readonly #limit: SharedLimit;
  readonly #users = new Map<string, number>();
  #bytes = 0;

  constructor(limit: SharedLimit) {
    this.#limit = limit;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** @returns why a user has no space for another result; null: there is some */
  check(user: string): Cause | null {
    const full = this.take(user, smallestBytes);
    if (full === null) this.release(user, smallestBytes);
    return full;
  }

  /** @returns why the user may not have so many bytes more; null: they are reserved */
  take(user: string, bytes: number): Cause | null {
    const { max, perUserMax } = this.#limit;
    const free = Math.max(0, max - this.#bytes);
    const held = this.#users.get(user) ?? 0;
    if (mayTake(this.#limit, held, bytes, free)) {
      this.use(user, bytes);
      return null;
    }
    if (bytes > free) return causes.keptFull('those of all users together may take (--kept_bytes_max)', max);
    return causes.keptFull('those of one user may take (--kept_bytes_per_user_max)', perUserMax);
  }

  /** Counts bytes even if they exceed the limit. */
  use(user: string, bytes: number): void {
    this.#bytes += bytes;
    this.#users.set(user, (this.#users.get(user) ?? 0) + bytes);
  }

  release(user: string, bytes: number): void {
    this.#bytes -= bytes;
    const left = (this.#users.get(user) ?? 0) - bytes;
    if (left > 0) this.#users.set(user, left);
    else this.#users.delete(user);
  }
}
