import { causes, failureOf } from '../wire/failures.ts';
import type { StatementHandle, StatementObserver, StatementRequest } from '../wire/statement.ts';
import type { Lease } from './lease.ts';

export interface SessionOptions {
  readonly id: string;
  /** The database user; nobody else may know of the session. */
  readonly owner: string;
  /** How long the session is kept after its last statement; 0: it ends with its first, and the connection is reused. */
  readonly idleMs: number;
  /** Statements that may wait behind the one that runs. */
  readonly queueMax: number;
}

interface Waiting {
  readonly request: StatementRequest;
  readonly observer: StatementObserver;
  handle: StatementHandle | null;
}

/**
 * A place where statements run one at a time in order of arrival: one database connection. States: busy (a statement
 * runs), idle (the clock runs, if the session is kept), ended. `onEnd` is called once, with the lease if it can be reused.
 */
export class Session {
  readonly id: string;
  readonly owner: string;
  readonly #options: SessionOptions;
  readonly #lease: Lease;
  readonly #onEnd: (session: Session, reuse: boolean, reason: string) => void;
  readonly #waiting: Waiting[] = [];
  #idleTimer: NodeJS.Timeout | null = null;
  #ended = false;

  constructor(
    options: SessionOptions,
    lease: Lease,
    onEnd: (session: Session, reuse: boolean, reason: string) => void,
  ) {
    this.id = options.id;
    this.owner = options.owner;
    this.#options = options;
    this.#lease = lease;
    this.#onEnd = onEnd;
    lease.on('idle', this.#onIdle);
    lease.on('lost', this.#onLost);
  }

  get lease(): Lease {
    return this.#lease;
  }

  get isKept(): boolean {
    return this.#options.idleMs > 0;
  }

  /** Runs a statement, now or when those before it have ended. What becomes of it, the observer is told. */
  run(request: StatementRequest, observer: StatementObserver): StatementHandle {
    if (!this.#lease.isRunning) {
      if (this.#idleTimer !== null) clearTimeout(this.#idleTimer);
      this.#idleTimer = null;
      return this.#lease.run(request, this.isKept ? 'keep' : 'clean', observer);
    }
    const waiting: Waiting = { request, observer, handle: null };
    if (this.#waiting.length >= this.#options.queueMax) {
      observer.failed(failureOf(causes.sessionQueueFull(this.#options.queueMax), 'not_started'));
    } else {
      this.#waiting.push(waiting);
    }
    return {
      credit: (bytes, rows) => waiting.handle?.credit(bytes, rows),
      askExamined: () => waiting.handle?.askExamined(),
      place: () => (waiting.handle === null ? this.#waiting.indexOf(waiting) + 1 : null),
      cancel: () => {
        if (waiting.handle !== null) waiting.handle.cancel();
        else if (this.#waiting.includes(waiting)) this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
      },
    };
  }

  /** Ends the session; a transaction that is open rolls back with its connection. */
  end(reason: string): void {
    this.#end(false, reason);
  }

  readonly #onIdle = (): void => {
    if (!this.isKept) {
      this.#end(true, 'its statement ended');
      return;
    }
    const next = this.#waiting.shift();
    if (next === undefined) {
      const { idleMs } = this.#options;
      this.#idleTimer = setTimeout(() => this.#end(false, `idle for ${idleMs / 1000} s`), idleMs);
    } else {
      next.handle = this.#lease.run(next.request, 'keep', next.observer);
    }
  };

  readonly #onLost = (reason: string): void => {
    this.#end(false, reason);
  };

  #end(reuse: boolean, reason: string): void {
    if (this.#ended) return;
    this.#ended = true;
    if (this.#idleTimer !== null) clearTimeout(this.#idleTimer);
    this.#lease.off('idle', this.#onIdle);
    this.#lease.off('lost', this.#onLost);
    this.#onEnd(this, reuse, reason);
    for (const { observer } of this.#waiting.splice(0))
      observer.failed(failureOf(causes.sessionLost(reason), 'not_started'));
  }
}
