import type { QueryMemory } from './request-memory.ts';

/** The memory that is reserved for the text of a statement. It is given back when nobody holds the text any more. */
export class StatementMemory {
  readonly #memory: QueryMemory | null;
  /** Whether a session holds the text. */
  #isLent = false;

  /** @param memory null: none is reserved */
  constructor(memory: QueryMemory | null) {
    this.#memory = memory;
  }

  lend(): void {
    this.#isLent = true;
  }

  returned(): void {
    this.#isLent = false;
  }

  /** The query does not need the text any more. @param isRemoved whether it needs nothing */
  shrink(isRemoved: boolean): void {
    if (this.#memory === null || this.#isLent) return;
    const { reservation, keptBytes } = this.#memory;
    if (isRemoved) reservation.release();
    else reservation.resize(keptBytes);
  }
}
