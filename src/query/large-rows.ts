import type { LargeRowMemory, LargeRowReservation } from '../wire/statement.ts';
import { type Buffers, MemoryReservation } from './buffers.ts';

interface LargeRow {
  readonly user: string;
  readonly bytes: number;
  readonly granted: () => void;
  /** null: it waits. */
  reservation: MemoryReservation | null;
}

/**
 * Reserves memory for large rows in the budget of `Buffers`, within the share of each user. Rows that find no memory wait, in order
 * of arrival among those of one user, and users in turn. If no row is reserved, the next one is granted even if the budget is used
 * up: a row never waits for a client to read, only for other rows.
 */
export class LargeRows implements LargeRowMemory {
  readonly #buffers: Buffers;
  /** The user whose turn is next comes first. */
  readonly #waiting = new Map<string, LargeRow[]>();
  readonly #reserved = new Set<LargeRow>();
  #isAdvancing = false;

  constructor(buffers: Buffers) {
    this.#buffers = buffers;
  }

  /** Bytes that are reserved. */
  get reservedBytes(): number {
    let sum = 0;
    for (const { bytes } of this.#reserved) sum += bytes;
    return sum;
  }

  /** Rows that wait. */
  get waiting(): number {
    let count = 0;
    for (const rows of this.#waiting.values()) count += rows.length;
    return count;
  }

  reserve(user: string, bytes: number, granted: () => void): LargeRowReservation {
    const row: LargeRow = { user, bytes, granted, reservation: null };
    const rows = this.#waiting.get(user);
    if (rows === undefined) this.#waiting.set(user, [row]);
    else rows.push(row);
    this.advance();
    return { release: () => this.#release(row) };
  }

  /** Grants what there is memory for. */
  advance(): void {
    if (this.#waiting.size === 0 || this.#isAdvancing) return;
    this.#isAdvancing = true;
    for (let row = this.#next(); row !== null; row = this.#next()) this.#grant(row);
    this.#isAdvancing = false;
  }

  #next(): LargeRow | null {
    for (const [first] of this.#waiting.values()) {
      if (first === undefined) continue;
      if (this.#reserved.size === 0) return first;
      // Smaller rows of others do not overtake it, or it might wait for ever.
      if (first.bytes > this.#buffers.freeBytes) return null;
      if (this.#buffers.hasRoomFor(first.user, first.bytes)) return first;
    }
    return null;
  }

  #grant(row: LargeRow): void {
    const { user, bytes } = row;
    this.#removeWaiting(row);
    const rows = this.#waiting.get(user);
    if (rows !== undefined) {
      this.#waiting.delete(user);
      this.#waiting.set(user, rows);
    }
    row.reservation = new MemoryReservation(this.#buffers, user);
    this.#reserved.add(row);
    // A row that is granted beyond its user's share takes nothing of what is left to others.
    const left = Math.max(0, this.#buffers.perUserMax - this.#buffers.reservedBytesOf(user));
    row.reservation.set(Math.min(bytes, left), 0);
    row.granted();
  }

  #removeWaiting(row: LargeRow): void {
    const rows = this.#waiting.get(row.user);
    const index = rows?.indexOf(row) ?? -1;
    if (index < 0) return;
    rows?.splice(index, 1);
    if (rows?.length === 0) this.#waiting.delete(row.user);
  }

  #release(row: LargeRow): void {
    this.#removeWaiting(row);
    this.#reserved.delete(row);
    row.reservation?.close();
    row.reservation = null;
    this.advance();
  }
}
