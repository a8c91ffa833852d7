import { newSessionId } from '../ids.ts';
import type { Query } from '../query/query.ts';
import type { Account } from '../session/accounts.ts';
import type { Lease, LeaseHolder } from '../session/lease.ts';
import type { Leases } from '../session/leases.ts';
import { OpenRefusedError } from '../session/open-refused-error.ts';
import type { Movable, Session } from '../session/session.ts';
import { causes, type Failure, failureOf } from '../wire/failures.ts';
import { defaultOptions, type Statement, type StatementHandle } from '../wire/statement.ts';
import { isStandalone, type QueryRequest } from './query-request.ts';
import type { Queue, Waiter } from './queue.ts';

/** The connection or session that a statement runs on, or the reason why it cannot run. */
export type Placement =
  /** A connection for this statement only. */
  | { readonly type: 'connection'; readonly lease: Lease }
  | { readonly type: 'session'; readonly session: Session }
  | { readonly type: 'failed'; readonly failure: Failure };

/** null: the statement has to wait. */
export type OpenResult = Placement | null | Promise<Placement | null>;

/** Opens connections and sessions for statements. Implemented by `Dispatcher`. */
export interface Opener {
  readonly leases: Leases;
  readonly queue: Queue;
  readonly queueWaitMs: number;
  /**
   * @param sessionId of a session that is opened
   * @returns null, also by the promise, if no connection is free
   * @throws OpenRefusedError also by the promise
   */
  open(request: QueryRequest, account: Account, sessionId: string): OpenResult;
  /** Gives back the placement of a statement that is not dispatched. */
  abandon(placement: Placement | null, reason: string): void;
}

/**
 * Window for the transparent retry of a statement whose connection turns out to have been lost before the statement was sent. The
 * retry needs the account, which holds a password, so the account is dropped when the window closes.
 */
const retryWindowMs = 1_000;

/**
 * Brings one statement to its connection, and is the query's handle on it.
 *
 *     waiting ──▶ opening ──▶ running ──▶ over
 *        ▲           │           │
 *        └───────────┴───────────┘   no connection was free after all, or the one it had was lost before it was sent
 *
 * In each phase the statement can be cancelled, and is `over` then.
 */
export class Dispatch implements StatementHandle, Waiter, LeaseHolder, Movable {
  readonly user: string;
  #phase: 'waiting' | 'opening' | 'running' | 'over' = 'waiting';
  readonly #opener: Opener;
  readonly #query: Query;
  /** null: the statement can no longer be sent to another connection. */
  #resend: { request: QueryRequest; readonly account: Account } | null;
  /** The connection of a one-off statement, until it is released. */
  #lease: Lease | null = null;
  /** Set in the phase `running`. */
  #handle: StatementHandle | null = null;
  #retryTimer: NodeJS.Timeout | null = null;
  readonly #queuedAt = performance.now();

  constructor(opener: Opener, query: Query, request: QueryRequest, account: Account) {
    this.#opener = opener;
    this.#query = query;
    this.user = account.user;
    this.#resend = { request, account };
    query.begin(statementOf(request), isStandalone(request), this);
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
    let opened: OpenResult;
    try {
      opened = this.#opener.open(request, account, this.#query.identity.sessionId);
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
    this.#query.failed(failureOf(causes.queueTimeout(this.#opener.queueWaitMs / 1_000), 'not_started'));
  }

  credit(bytes: number, rows: number): void {
    this.#handle?.credit(bytes, rows);
  }

  askExamined(): void {
    this.#handle?.askExamined();
  }

  queuePosition(): number | null {
    if (this.#handle !== null) return this.#handle.queuePosition();
    return this.#opener.queue.position(this) || null;
  }

  cancel(): void {
    if (this.#phase === 'waiting') this.#opener.queue.remove(this);
    const handle = this.#handle;
    this.end();
    handle?.cancel();
  }

  /** For `Query`, as are `resend` and `end`. */
  get canResend(): boolean {
    return this.#resend !== null && isStandalone(this.#resend.request);
  }

  resend(): void {
    this.#handle = null;
    this.#clearRetryTimer();
    this.#releaseConnection(false);
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
    this.#releaseConnection(true);
  }

  /** For `Lease`. */
  onLost(): void {
    this.#releaseConnection(false);
  }

  /** For `Lease`: the state of a connection is reported to the session that may keep it, and this one is reset. */
  onSessionState(): void {}

  /** For `Lease`: the statement has failed, and its connection is closed when it is released. */
  onRevoked(): void {}

  #enqueue(): void {
    this.#phase = 'waiting';
    const { queue } = this.#opener;
    queue.add(this);
    queue.advance();
  }

  #opened(placement: Placement | null): void {
    if (this.#phase === 'over') {
      this.#opener.abandon(placement, 'its statement was cancelled before it was sent');
    } else if (placement === null) {
      // The database has refused the connection because a limit of its own is reached.
      this.#phase = 'waiting';
      this.#opener.queue.putBack(this, performance.now() - this.#queuedAt);
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
      // It has failed if the session's queue is full.
      if (this.#isOver) this.#handle = null;
      // It moves or stays when it is its turn.
      if (isMovable) return;
    }
    if (this.#isOver) return;
    if (isStandalone(this.#resend.request)) {
      this.#retryTimer = setTimeout(() => {
        this.#resend = null;
      }, retryWindowMs);
    } else {
      this.#resend = null;
    }
  }

  get #isOver(): boolean {
    return this.#phase === 'over';
  }

  #fail(error: unknown): void {
    if (!(error instanceof OpenRefusedError)) throw error;
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
  #releaseConnection(isReusable: boolean): void {
    const lease = this.#lease;
    if (lease === null) return;
    this.#lease = null;
    lease.holder = null;
    if (isReusable) this.#opener.leases.release(lease);
    else this.#opener.leases.discard(lease);
  }
}

function statementOf({ sql, traits, params, format, session, isStreamed, keepSecs }: QueryRequest): Statement {
  const variables = session.type === 'client-managed' ? session.variables : null;
  const expectsMany = isStreamed === true || keepSecs !== undefined;
  const isText = params === undefined && format === undefined && variables === null && !expectsMany;
  const options = isText
    ? null
    : {
        params: params ?? null,
        variables: variables ?? {},
        format: format ?? defaultOptions.format,
        expectsMany,
      };
  return traits === undefined ? { sql, options } : { sql, traits, options };
}
