import type { Query } from '../query/query.ts';

const tickMs = 100;
/** If more are watched, each waits for its turn: their questions are not to hold up anybody's answer. */
const perTick = 100;

/** Has the database asked how far those statements are for which somebody waits. One clock serves them all. */
export class Watch {
  /** Whose turn comes next is first. */
  readonly #queries = new Set<Query>();
  #timer: NodeJS.Timeout | null = null;

  add(query: Query): void {
    this.#queries.add(query);
    this.#timer ??= setInterval(() => this.#tick(), tickMs);
  }

  delete(query: Query): void {
    this.#queries.delete(query);
  }

  close(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  #tick(): void {
    if (this.#queries.size === 0) this.close();
    let turns = Math.min(perTick, this.#queries.size);
    for (const query of this.#queries) {
      if (turns-- === 0) return;
      this.#queries.delete(query);
      this.#queries.add(query);
      query.askExamined();
    }
  }
}
