import { newSessionId } from '../ids.ts';
import type { Buffers } from '../query/buffers.ts';
import type { Query } from '../query/query.ts';
import { RefusalError } from '../refusal-error.ts';
import type { Account } from '../session/accounts.ts';
import { type Lease, type LeaseHolder, RefusedError } from '../session/lease.ts';
import type { Leases } from '../session/leases.ts';
import type { Movable, Session } from '../session/session.ts';
import type { Sessions } from '../session/sessions.ts';
import { causes, type Failure, failureOf } from '../wire/failures.ts';
import { noExtras, type Statement, type StatementHandle } from '../wire/statement.ts';
import { isAlone, type QueryRequest } from './query-request.ts';
import type { Queue, Waiter } from './queue.ts';

/** What a statement runs on, or why it cannot run. */
export type Placement =
  /** A connection for this statement only. */
  | { readonly type: 'connection'; readonly lease: Lease }
  | { readonly type: 'session'; readonly session: Session }
  | { readonly type: 'failed'; readonly failure: Failure };

/** null: the statement has to wait. */
type Opened = Placement | null | Promise<Placement | null>;

/**
 * Window for the transparent retry of a statement whose connection turns out to have been lost before the statement was sent. The
 * retry needs the account, which holds a password, so the account is dropped when the window closes.
 */
const retryWindowMs = 1_000;

/** Brings statements to connections and sessions: at once if one is free, else through the queue. */
export class Dispatcher {
  readonly #leases: Leases;
  readonly #sessions: Sessions;
  readonly #buffers: Buffers;
  readonly #queue: Queue;
  readonly #queueWaitMs: number;

  constructor(leases: Leases, sessions: Sessions, buffers: Buffers, queue: Queue, queueWaitMs: number) {
    this.#leases = leases;
    this.#sessions = sessions;
    this.#buffers = buffers;
    this.#queue = queue;
    this.#queueWaitMs = queueWaitMs;
  }

  /**
   * Takes a connection or session for a statement. The caller passes the placement to `dispatch`, or gives it back by `abandon`.
   * @returns null if the statement has to wait for memory or a connection, and there is room in the queue
   * @throws RefusalError also by the promise, if it would have to wait and too many statements do
   */
  place(request: QueryRequest, account: Account): Opened {
    // Whenever a connection becomes free, the queue advances first: a new statement must not take it from those that wait.
    const isNext = request.session.type === 'existing' || !this.#queue.hasWaiting(account.user);
    const placement = isNext && this.#buffers.hasRoomFor(account.user) ? this.open(request, account) : null;
    return placement instanceof Promise
      ? placement.then((opened) => this.#checkQueue(opened, account))
      : this.#checkQueue(placement, account);
  }

  #checkQueue(placement: Placement | null, { user }: Account): Placement | null {
    if (placement !== null) return placement;
    switch (this.#queue.admit(user)) {
      case 'admitted':
        return null;
      case 'full':
        throw new RefusalError(
          'as many statements wait for a connection or for memory as may (--queue_max)',
          'unavailable',
        );
      case 'user full':
        throw new RefusalError(
          'as many statements of this user wait for a connection or for memory as may, so that other users find a place ' +
            '(--queue_max): wait until some of them have begun',
          'too many',
        );
    }
  }

  /** Gives back what was opened for a statement that is not dispatched. */
  abandon(placement: Placement | null, reason: string): void {
    if (placement?.type === 'connection') this.#leases.release(placement.lease);
    else if (placement?.type === 'session') placement.session.end(reason);
  }

  /**
   * The request with the session that its statement can run in. A client that has several statements under way may name a
   * pinned session that another of them has ended without loss, as a COMMIT does; the statement then runs in a session of its own.
   */
  resolve(request: QueryRequest, user: string): QueryRequest {
    const { session } = request;
    if (session.type !== 'existing' || session.otherwise === undefined) return request;
    const isOver = session.whyEnded === undefined && this.#sessions.hasEndedWithoutLoss(session.id, user);
    return isOver ? { ...request, session: session.otherwise } : request;
  }

  /**
   * Runs the statement of a query.
   * @param placement null: when it is its turn
   */
  dispatch(query: Query, request: QueryRequest, account: Account, placement: Placement | null): void {
    if (placement?.type === 'failed') query.failed(placement.failure);
    else new Dispatch(this, query, request, account).begin(placement);
  }

  /**
   * For `Dispatch`.
   * @returns null, also by the promise, if no connection is free
   * @throws RefusedError also by the promise
   */
  open(request: QueryRequest, account: Account, sessionId?: string): Opened {
    const { session } = request;
    if (session.type === 'existing') {
      const { id } = session;
      const found = this.#sessions.find(id, account.user);
      if (found !== undefined) return { type: 'session', session: found };
      const reason = session.whyEnded ?? this.#sessions.whyEnded(id, account.user);
      const cause = reason === undefined ? causes.noSuchSession(id) : causes.heldSessionEnded(reason);
      return { type: 'failed', failure: failureOf(cause, 'not_started') };
    }
    if (session.type === 'new' && session.maxIdleSecs === 0) {
      const { user, password, digest } = account;
      const lease = this.#leases.acquire({ login: { user, password, database: session.database }, digest });
      return lease instanceof Promise ? lease.then(onConnection, placementOfRefusal) : lease && onConnection(lease);
    }
    const opened =
      session.type === 'client-managed'
        ? this.#sessions.openClientManaged(account, session.database, session.client, sessionId)
        : this.#sessions.open(account, session.database, session.maxIdleSecs * 1_000, sessionId);
    return opened instanceof Promise ? opened.then(inSession, placementOfRefusal) : opened && inSession(opened);
  }

  /** For `Dispatch`. */
  get leases(): Leases {
    return this.#leases;
  }

  /** For `Dispatch`. */
  get queue(): Queue {
    return this.#queue;
  }

  /** For `Dispatch`. */
  get queueWaitMs(): number {
    return this.#queueWaitMs;
  }
}

/**
 * The way of one statement to its connection, and the query's handle on it.
 *
 *     waiting ──▶ opening ──▶ running ──▶ over
 *        ▲           │           │
 *        └───────────┴───────────┘   no connection was free after all, or the one it had was lost before it was sent
 *
 * In each phase the statement can be cancelled, and is `over` then.
 */
class Dispatch implements StatementHandle, Waiter, LeaseHolder, Movable {
  readonly user: string;
  #phase: 'waiting' | 'opening' | 'running' | 'over' = 'waiting';
  readonly #dispatcher: Dispatcher;
  readonly #query: Query;
  /** null: the statement can no longer be sent to another connection. */
  #resend: { request: QueryRequest; readonly account: Account } | null;
  /** The connection of a one-off statement, until it is given back. */
  #lease: Lease | null = null;
  /** Set while running. */
  #handle: StatementHandle | null = null;
  #retryTimer: NodeJS.Timeout | null = null;
  readonly #queuedAt = performance.now();

  constructor(dispatcher: Dispatcher, query: Query, request: QueryRequest, account: Account) {
    this.#dispatcher = dispatcher;
    this.#query = query;
    this.user = account.user;
    this.#resend = { request, account };
    query.begin(statementOf(request), isAlone(request), this);
  }

  /** @param placement null: it waits for its turn */
  begin(placement: Placement | null): void {
    if (placement === null) this.#enqueue();
    else this.#run(placement);
  }

  /** For `Queue`. */
  get needsConnection(): boolean {
    return this.#resend?.request.session.type !== 'existing';
  }

  /** For `Queue`. */
  start(): boolean {
    if (this.#resend === null) return true;
    const { request, account } = this.#resend;
    let opened: Opened;
    try {
      opened = this.#dispatcher.open(request, account, this.#query.identity.sessionId);
    } catch (error) {
      this.#fail(error);
      return true;
    }
    if (opened === null) return false;
    if (opened instanceof Promise) {
      this.#phase = 'opening';
      opened.then(
        (placement) => this.#opened(placement),
        (error: unknown) => this.#fail(error),
      );
    } else {
      this.#run(opened);
    }
    return true;
  }

  /** For `Queue`. */
  giveUp(): void {
    this.end();
    this.#query.failed(failureOf(causes.queueTimeout(this.#dispatcher.queueWaitMs / 1_000), 'not_started'));
  }

  credit(bytes: number, rows: number): void {
    this.#handle?.credit(bytes, rows);
  }

  askExamined(): void {
    this.#handle?.askExamined();
  }

  queuePosition(): number | null {
    if (this.#handle !== null) return this.#handle.queuePosition();
    return this.#dispatcher.queue.position(this) || null;
  }

  cancel(): void {
    if (this.#phase === 'waiting') this.#dispatcher.queue.remove(this);
    const handle = this.#handle;
    this.end();
    handle?.cancel();
  }

  /** For `Query`, as are `resend` and `end`. */
  get canResend(): boolean {
    return this.#resend !== null && isAlone(this.#resend.request);
  }

  resend(): void {
    this.#handle = null;
    this.#clearRetryTimer();
    this.#giveBack(false);
    this.#enqueue();
  }

  /** For `Session`: it has ended without loss before it was this statement's turn. */
  move(): void {
    const session = this.#resend?.request.session;
    if (this.#resend === null || session?.type !== 'existing' || session.otherwise === undefined) return;
    this.#resend.request = { ...this.#resend.request, session: session.otherwise };
    this.#handle = null;
    // Several statements could otherwise take the id of the session that has ended.
    this.#query.moveTo(newSessionId());
    this.#query.begin(statementOf(this.#resend.request), true, this);
    this.#enqueue();
  }

  /** For `Session`. */
  stay(): void {
    this.#resend = null;
  }

  /** For `Lease`. */
  onIdle(): void {
    this.#giveBack(true);
  }

  /** For `Lease`. */
  onLost(): void {
    this.#giveBack(false);
  }

  /** For `Lease`: the state of a connection is reported to the session that may keep it, and this one is reset. */
  onLeft(): void {}

  /** For `Lease`: the statement has failed, and its connection is closed when it is given back. */
  onRevoked(): void {}

  #enqueue(): void {
    this.#phase = 'waiting';
    const { queue } = this.#dispatcher;
    queue.add(this);
    queue.advance();
  }

  #opened(placement: Placement | null): void {
    if (this.#phase === 'over') {
      this.#dispatcher.abandon(placement, 'its statement was cancelled before it was sent');
    } else if (placement === null) {
      // The database has refused the connection because a limit of its own is reached.
      this.#phase = 'waiting';
      this.#dispatcher.queue.putBack(this, performance.now() - this.#queuedAt);
    } else {
      this.#run(placement);
    }
  }

  #run(placement: Placement): void {
    if (this.#resend === null) return;
    if (placement.type === 'failed') {
      this.end();
      this.#query.failed(placement.failure);
      return;
    }
    this.#phase = 'running';
    const request = this.#query.statementRequest();
    if (placement.type === 'connection') {
      this.#lease = placement.lease;
      this.#lease.holder = this;
      this.#handle = this.#lease.run(request, 'clean', this.#query);
    } else {
      const { session } = this.#resend.request;
      const isMovable = session.type === 'existing' && session.otherwise !== undefined;
      this.#handle = placement.session.run(request, this.#query, isMovable ? this : null);
      // It moves or stays when it is its turn.
      if (isMovable) return;
    }
    // It may have failed already, as the session's queue is full.
    if (this.#resend === null) {
      this.#handle = null;
      return;
    }
    if (isAlone(this.#resend.request)) {
      this.#retryTimer = setTimeout(() => {
        this.#resend = null;
      }, retryWindowMs);
    } else {
      this.#resend = null;
    }
  }

  #fail(error: unknown): void {
    if (!(error instanceof RefusedError)) throw error;
    if (this.#phase === 'over') return;
    this.end();
    this.#query.failed(failureOf({ ...error.refusal.failure, isPassing: true }, 'not_started'));
  }

  end(): void {
    this.#phase = 'over';
    this.#handle = null;
    this.#resend = null;
    this.#clearRetryTimer();
  }

  #clearRetryTimer(): void {
    if (this.#retryTimer !== null) clearTimeout(this.#retryTimer);
    this.#retryTimer = null;
  }

  /** @param isReusable whether other statements can use the connection */
  #giveBack(isReusable: boolean): void {
    const lease = this.#lease;
    if (lease === null) return;
    this.#lease = null;
    lease.holder = null;
    if (isReusable) this.#dispatcher.leases.release(lease);
    else this.#dispatcher.leases.discard(lease);
  }
}

function onConnection(lease: Lease): Placement {
  return { type: 'connection', lease };
}

function inSession(session: Session): Placement {
  return { type: 'session', session };
}

/**
 * What follows from a connection that the database has refused: the statement fails if its request is the reason, and waits if
 * the database accepts no more connections.
 */
function placementOfRefusal(error: unknown): Placement | null {
  const refusal = error instanceof RefusedError ? error.refusal : null;
  if (refusal?.kind === 'database') return { type: 'failed', failure: failureOf(refusal.failure, 'not_started') };
  if (refusal?.kind === 'full' || refusal?.kind === 'user full') return null;
  throw error;
}

function statementOf({ sql, traits, params, cells, session }: QueryRequest): Statement {
  const variables = session.type === 'client-managed' ? session.variables : null;
  const isText = params === undefined && cells === undefined && variables === null;
  const extras = isText ? null : { params: params ?? null, variables: variables ?? {}, cells: cells ?? noExtras.cells };
  return traits === undefined ? { sql, extras } : { sql, traits, extras };
}
