import type { Query } from '../query/query.ts';

const tickMs = 100;
/** If there are more queries, they take turns, so that their requests for progress do not delay answers. */
const perTick = 100;

/** Has running queries ask the database for their progress, in turn. One timer serves all of them. */
export class ProgressPoller {
  /** The query whose turn is next comes first. */
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
      query.askProgress();
    }
  }
}
