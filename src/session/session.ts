import { causes, failureOf } from '../wire/failures.ts';
import { nextPhase, type Transitions } from '../wire/phase.ts';
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
  /** The database user. To other users, the session does not exist. */
  readonly owner: string;
  /**
   * Whether it outlives its statements. `pinned`: while it has state that its client cannot carry to another session, such as an
   * open transaction.
   */
  readonly keep: 'always' | 'pinned' | 'never';
  /** How long it is kept after its last statement. */
  readonly idleMs: number;
  /** The client whose heartbeats restart the idle time; null: none. */
  readonly client: string | null;
  /** The most statements that wait behind the one that runs. */
  readonly queueMax: number;
}

/** A statement that can run in another session while it waits in this one. */
export interface Movable {
  /** The session has ended without loss, as by a COMMIT, and reports nothing more of the statement. */
  move(): void;
  /** The statement is about to be sent in this session. */
  stay(): void;
}

export interface SessionObserver {
  /** The session is pinned from now on, until it ends. */
  onPinned(session: Session): void;
  /**
   * Called once.
   * @param reuse whether its connection is clean, and can run the statements of others
   */
  onEnded(session: Session, reuse: boolean, reason: string): void;
}

const endedByClient = 'its client ended it';

const afterwards = { always: 'keep', pinned: 'pin', never: 'clean' } as const;

type Phase = 'idle' | 'busy' | 'ending' | 'ended';

const transitions: Transitions<Phase> = {
  idle: ['busy', 'ended'],
  busy: ['idle', 'ending', 'ended'],
  ending: ['ended'],
  ended: [],
};

/**
 * Runs statements one at a time, in order of arrival, on one connection.
 *
 *     idle ◀──▶ busy ──▶ ending ──▶ ended
 *       │         │                   ▲
 *       └─────────┴───────────────────┘
 *
 *     idle      the idle time passes, after which the session ends
 *     busy      a statement runs, and others may wait
 *     ending    the session ends with the statement that runs, which is not cancelled
 */
export class Session implements LeaseHolder {
  readonly id: string;
  readonly owner: string;
  #phase: Phase = 'idle';
  readonly #options: SessionOptions;
  readonly #lease: Lease;
  readonly #observer: SessionObserver;
  readonly #waiting: WaitingStatement[] = [];
  #idleTimer: NodeJS.Timeout | null = null;
  #isPinned = false;
  /** Why it is `ending`. */
  #endReason = '';

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

  /** Whether it outlives the statement that runs. */
  get isKept(): boolean {
    return this.#options.keep === 'always' || this.#isPinned;
  }

  /** Whether its client carries its database, variables and settings, so that it is kept only while it is pinned. */
  get isClientManaged(): boolean {
    return this.#options.keep === 'pinned';
  }

  /** Restarts the idle time, after a heartbeat of the client. */
  renew(client: string | null): void {
    if (this.isClientManaged && client === this.#options.client) this.#idleTimer?.refresh();
  }

  /** Ends it if it is that client's. A statement that runs is ended first, since its result may still be read. */
  endOf(client: string, reason: string): void {
    if (client === this.#options.client) this.#endAfterStatement(reason);
  }

  /**
   * Runs a statement, now or when those before it have ended.
   * @param movable null: it can run in this session only
   */
  run(request: StatementRequest, observer: StatementObserver, movable: Movable | null = null): StatementHandle {
    if (this.#phase === 'ended') throw new Error('a statement was given to a session that has ended');
    if (this.#phase === 'idle') {
      if (this.#idleTimer !== null) clearTimeout(this.#idleTimer);
      this.#idleTimer = null;
      this.#enter('busy');
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

  /** Ends the session for its client, and cancels the statements that run or wait in it. */
  endByClient(): void {
    const cause = causes.sessionEnded();
    this.#lease.interrupt(cause);
    this.#end(false, endedByClient, cause);
  }

  /** For `Lease`. */
  onIdle(): void {
    // After a statement that was cancelled, `onSessionState` is not called, and the client is not given the session's state. If
    // that statement has pinned the session, the client has no token to resume it, and nobody else can: the session ends.
    const { isPinned } = this.#lease;
    if (!this.isKept || (this.isClientManaged && !isPinned)) {
      this.#end(!isPinned, 'its statement ended');
      return;
    }
    if (this.#phase === 'ending') {
      this.#end(false, this.#endReason);
      return;
    }
    const next = this.#waiting.shift();
    if (next === undefined) {
      this.#enter('idle');
      const { idleMs } = this.#options;
      this.#idleTimer = setTimeout(() => this.#end(false, `idle for ${idleMs / 1000} s`), idleMs);
    } else {
      next.run(this.#lease, afterwards[this.#options.keep]);
    }
  }

  /** For `Lease`. */
  onSessionState({ isPinned }: SessionState): void {
    const wasPinned = this.#isPinned;
    this.#isPinned = isPinned;
    if (isPinned && !wasPinned) this.#observer.onPinned(this);
  }

  /** For `Lease`. */
  onLost(reason: string): void {
    this.#end(false, reason);
  }

  /** For `Lease`. */
  onRevoked(): void {
    this.#endAfterStatement('the database no longer accepts the name and password of its user');
  }

  #enter(phase: Phase): void {
    this.#phase = nextPhase(transitions, this.#phase, phase);
  }

  #endAfterStatement(reason: string): void {
    if (this.#phase === 'idle') {
      this.end(reason);
    } else {
      if (this.#phase === 'busy') this.#enter('ending');
      this.#endReason = reason;
    }
  }

  /** @param cause of the failure of statements that wait; by default, that the session was lost */
  #end(
    reuse: boolean,
    reason: string,
    cause = this.isClientManaged ? causes.pinnedSessionEnded(reason) : causes.sessionLost(reason),
  ): void {
    if (this.#phase === 'ended') return;
    this.#enter('ended');
    if (this.#idleTimer !== null) clearTimeout(this.#idleTimer);
    this.#lease.holder = null;
    this.#observer.onEnded(this, reuse, reason);
    for (const waiting of this.#waiting.splice(0)) {
      if (reuse && waiting.movable !== null) waiting.movable.move();
      else waiting.observer.failed(failureOf(cause, 'not_started'));
    }
  }
}

/** A statement that waits in a session for those before it, and its handle also when it runs. */
class WaitingStatement implements StatementHandle {
  readonly observer: StatementObserver;
  readonly movable: Movable | null;
  readonly #queue: WaitingStatement[];
  /** null: it was sent. */
  #request: StatementRequest | null;
  #handle: StatementHandle | null = null;

  /** @param queue the waiting statements of its session */
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
