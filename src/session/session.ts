import { causes, failureOf } from '../wire/failures.ts';
import type {
  Afterwards,
  SessionState,
  StatementHandle,
  StatementObserver,
  StatementRequest,
} from '../wire/statement.ts';
import type { Lease, LeaseHolder } from './lease.ts';

export interface SessionOptions {
  readonly id: string;
  /** The database user; nobody else may know of the session. */
  readonly owner: string;
  /**
   * Whether it outlives its statements. `held`: for as long as its state is one that its client cannot carry elsewhere, such
   * as an open transaction.
   */
  readonly keep: 'always' | 'held' | 'never';
  /** How long it is kept after its last statement, if it is. */
  readonly idleMs: number;
  /** Whoever may keep it alive without a statement; null: nobody. */
  readonly client: string | null;
  /** Statements that may wait behind the one that runs. */
  readonly queueMax: number;
}

/** A statement that can run in another session while it waits in this one. */
export interface Movable {
  /** The session has ended without loss, as by a COMMIT, and reports nothing more of the statement. */
  move(): void;
  /** The statement is sent in this session. */
  stay(): void;
}

/** Told by a session. */
export interface SessionObserver {
  /** From now on it is held; what ends that is its end. */
  held(session: Session): void;
  /** Called once. @param reuse whether its connection can serve others */
  ended(session: Session, reuse: boolean, reason: string): void;
}

const endedByClient = 'its client ended it';

const afterwards = { always: 'keep', held: 'hold', never: 'clean' } as const;

/**
 * A place where statements run one at a time in order of arrival: one database connection. States: busy (a statement
 * runs), idle (the clock runs, if the session is kept), ended.
 */
export class Session implements LeaseHolder {
  readonly id: string;
  readonly owner: string;
  readonly #options: SessionOptions;
  readonly #lease: Lease;
  readonly #observer: SessionObserver;
  readonly #waiting: WaitingStatement[] = [];
  #idleTimer: NodeJS.Timeout | null = null;
  #isHeld = false;
  /** Why it ends when it is idle; null if it need not. */
  #endReason: string | null = null;
  #ended = false;

  constructor(options: SessionOptions, lease: Lease, observer: SessionObserver) {
    this.id = options.id;
    this.owner = options.owner;
    this.#options = options;
    this.#lease = lease;
    this.#observer = observer;
    lease.holder = this;
  }

  get lease(): Lease {
    return this.#lease;
  }

  /** Whether there is more to it than its next statement. */
  get isKept(): boolean {
    return this.#options.keep === 'always' || this.#isHeld;
  }

  /** Whether it is one whose state its client carries, as far as can be. */
  get isCarried(): boolean {
    return this.#options.keep === 'held';
  }

  /** Its client is there: the clock begins anew. */
  renew(client: string | null): void {
    if (this.isCarried && client === this.#options.client) this.#idleTimer?.refresh();
  }

  /** Ends it if it is that client's, now or when its statement has ended, which somebody may still ask about. */
  endOf(client: string, reason: string): void {
    if (client !== this.#options.client) return;
    if (this.#lease.isRunning) this.#endReason = reason;
    else this.end(reason);
  }

  /**
   * Runs a statement, now or when those before it have ended. The observer is told the rest.
   * @param movable null: it can run in this session only
   */
  run(request: StatementRequest, observer: StatementObserver, movable: Movable | null = null): StatementHandle {
    if (!this.#lease.isRunning) {
      if (this.#idleTimer !== null) clearTimeout(this.#idleTimer);
      this.#idleTimer = null;
      movable?.stay();
      return this.#lease.run(request, afterwards[this.#options.keep], observer);
    }
    const waiting = new WaitingStatement(this.#waiting, request, observer, movable);
    if (this.#waiting.length >= this.#options.queueMax) {
      observer.failed(failureOf(causes.sessionQueueFull(this.#options.queueMax), 'not_started'));
    } else {
      this.#waiting.push(waiting);
    }
    return waiting;
  }

  /** Ends the session; a transaction that is open rolls back with its connection. */
  end(reason: string): void {
    this.#end(false, reason);
  }

  /** Ends the session as its client wishes, and cancels the statements that run or wait in it. */
  endByClient(): void {
    const cause = causes.sessionEnded();
    this.#lease.interrupt(cause);
    this.#end(false, endedByClient, cause);
  }

  /** For `Lease`. */
  onIdle(): void {
    // Of a statement that was cancelled nobody is told in what it has left the session: neither has the client a handle to what
    // is held on its account alone, nor does it know that nothing is held any more.
    const { isHeld } = this.#lease;
    if (!this.isKept || (this.isCarried && !isHeld)) {
      this.#end(!isHeld, 'its statement ended');
      return;
    }
    if (this.#endReason !== null) {
      this.#end(false, this.#endReason);
      return;
    }
    const next = this.#waiting.shift();
    if (next === undefined) {
      const { idleMs } = this.#options;
      this.#idleTimer = setTimeout(() => this.#end(false, `idle for ${idleMs / 1000} s`), idleMs);
    } else {
      next.run(this.#lease, afterwards[this.#options.keep]);
    }
  }

  /** For `Lease`. */
  onLeft({ isHeld }: SessionState): void {
    const wasHeld = this.#isHeld;
    this.#isHeld = isHeld;
    if (isHeld && !wasHeld) this.#observer.held(this);
  }

  /** For `Lease`. */
  onLost(reason: string): void {
    this.#end(false, reason);
  }

  /** For `Lease`. */
  onRevoked(): void {
    const reason = 'the database no longer accepts the name and password of its user';
    if (this.#lease.isRunning) this.#endReason = reason;
    else this.end(reason);
  }

  /** @param cause of the failure of statements that wait; left out: the session was lost */
  #end(
    reuse: boolean,
    reason: string,
    cause = this.isCarried ? causes.heldSessionEnded(reason) : causes.sessionLost(reason),
  ): void {
    if (this.#ended) return;
    this.#ended = true;
    if (this.#idleTimer !== null) clearTimeout(this.#idleTimer);
    this.#lease.holder = null;
    this.#observer.ended(this, reuse, reason);
    for (const waiting of this.#waiting.splice(0)) {
      if (reuse && waiting.movable !== null) waiting.movable.move();
      else waiting.observer.failed(failureOf(cause, 'not_started'));
    }
  }
}

/** A statement that waits in a session for those before it, and its handle from then on. */
class WaitingStatement implements StatementHandle {
  readonly observer: StatementObserver;
  readonly movable: Movable | null;
  readonly #queue: WaitingStatement[];
  /** null: it has been sent. */
  #request: StatementRequest | null;
  #handle: StatementHandle | null = null;

  /** @param queue of its session, in which it waits */
  constructor(
    queue: WaitingStatement[],
    request: StatementRequest,
    observer: StatementObserver,
    movable: Movable | null,
  ) {
    this.#queue = queue;
    this.#request = request;
    this.observer = observer;
    this.movable = movable;
  }

  run(lease: Lease, after: Afterwards): void {
    if (this.#request === null) return;
    this.movable?.stay();
    this.#handle = lease.run(this.#request, after, this.observer);
    this.#request = null;
  }

  credit(bytes: number, rows: number): void {
    this.#handle?.credit(bytes, rows);
  }

  askExamined(): void {
    this.#handle?.askExamined();
  }

  queuePosition(): number | null {
    return this.#handle === null ? this.#queue.indexOf(this) + 1 : null;
  }

  cancel(): void {
    const index = this.#queue.indexOf(this);
    if (this.#handle !== null) this.#handle.cancel();
    else if (index >= 0) this.#queue.splice(index, 1);
  }
}
