import type { Buffers } from '../query/buffers.ts';
import type { Query } from '../query/query.ts';
import { RefusalError } from '../refusal-error.ts';
import type { Account } from '../session/accounts.ts';
import type { Lease } from '../session/lease.ts';
import type { Leases } from '../session/leases.ts';
import { OpenRefusedError, reachedLimitOf } from '../session/open-refused-error.ts';
import type { Session } from '../session/session.ts';
import type { Sessions } from '../session/sessions.ts';
import { causes, failureOf } from '../wire/failures.ts';
import { Dispatch, type Opener, type OpenResult, type Placement } from './dispatch.ts';
import type { QueryRequest } from './query-request.ts';
import type { Queue } from './queue.ts';

/** Brings statements to connections and sessions: at once if one is free, else through the queue. */
export class Dispatcher implements Opener {
  readonly leases: Leases;
  readonly queue: Queue;
  readonly queueWaitMs: number;
  readonly #sessions: Sessions;
  readonly #buffers: Buffers;

  constructor(leases: Leases, sessions: Sessions, buffers: Buffers, queue: Queue, queueWaitMs: number) {
    this.leases = leases;
    this.#sessions = sessions;
    this.#buffers = buffers;
    this.queue = queue;
    this.queueWaitMs = queueWaitMs;
  }

  /**
   * Takes a connection or session for a statement. The caller passes the placement to `dispatch`, or gives it back by `abandon`.
   * @returns null if the statement has to wait for memory or a connection, and there is room in the queue
   * @throws RefusalError also by the promise, if it would have to wait and too many statements do
   */
  place(request: QueryRequest, account: Account): OpenResult {
    // Whenever a connection becomes free, the queue advances first: a new statement must not take it from those that wait.
    const isNext = request.session.type === 'existing' || !this.queue.hasWaiting(account.user);
    const placement = isNext && this.#buffers.hasRoomFor(account.user) ? this.open(request, account) : null;
    return placement instanceof Promise
      ? placement.then((opened) => this.#checkQueue(opened, account))
      : this.#checkQueue(placement, account);
  }

  #checkQueue(placement: Placement | null, { user }: Account): Placement | null {
    if (placement !== null) return placement;
    switch (this.queue.admit(user)) {
      case 'admitted':
        return null;
      case 'queue full':
        throw new RefusalError(
          'as many statements wait for a connection or for memory as may (--queue_max)',
          'unavailable',
        );
      case 'user has too many':
        throw new RefusalError(
          'as many statements of this user wait for a connection or for memory as may, so that other users find a place ' +
            '(--queue_max): wait until some of them have begun',
          'too many',
        );
    }
  }

  abandon(placement: Placement | null, reason: string): void {
    if (placement?.type === 'connection') this.leases.release(placement.lease);
    else if (placement?.type === 'session') placement.session.end(reason);
  }

  /**
   * The request with the session that its statement can run in. A client with concurrent statements may name a pinned session that a
   * COMMIT of another statement has just released. The statement then runs in a session of its own.
   */
  resolve(request: QueryRequest, user: string): QueryRequest {
    const { session } = request;
    if (session.type !== 'existing' || session.otherwise === undefined) return request;
    const hasEndedWithoutLoss = session.whyEnded === undefined && this.#sessions.hasEndedWithoutLoss(session.id, user);
    return hasEndedWithoutLoss ? { ...request, session: session.otherwise } : request;
  }

  /**
   * Runs the statement of a query.
   * @param placement null: the statement joins the queue
   */
  dispatch(query: Query, request: QueryRequest, account: Account, placement: Placement | null): void {
    if (placement?.type === 'failed') query.failed(placement.failure);
    else new Dispatch(this, query, request, account).begin(placement);
  }

  open(request: QueryRequest, account: Account, sessionId?: string): OpenResult {
    const { session } = request;
    if (session.type === 'existing') {
      const { id } = session;
      const found = this.#sessions.find(id, account.user);
      if (found !== undefined) return { type: 'session', session: found };
      const reason = session.whyEnded ?? this.#sessions.whyEnded(id, account.user);
      const cause = reason === undefined ? causes.noSuchSession(id) : causes.pinnedSessionEnded(reason);
      return { type: 'failed', failure: failureOf(cause, 'not_started') };
    }
    if (session.type === 'new' && session.maxIdleSecs === 0) {
      const { user, password, digest } = account;
      const lease = this.leases.acquire({ login: { user, password, database: session.database }, digest });
      return lease instanceof Promise
        ? lease.then(connectionPlacement, placementOfRefusal)
        : lease && connectionPlacement(lease);
    }
    const opened =
      session.type === 'client-managed'
        ? this.#sessions.openClientManaged(account, session.database, session.client, sessionId)
        : this.#sessions.open(account, session.database, session.maxIdleSecs * 1_000, sessionId);
    return opened instanceof Promise
      ? opened.then(sessionPlacement, placementOfRefusal)
      : opened && sessionPlacement(opened);
  }
}

function connectionPlacement(lease: Lease): Placement {
  return { type: 'connection', lease };
}

function sessionPlacement(session: Session): Placement {
  return { type: 'session', session };
}

/**
 * Handles a connection that the database has refused: the statement fails if its request is the reason, and waits if the
 * database accepts no more connections.
 */
function placementOfRefusal(error: unknown): Placement | null {
  const refusal = error instanceof OpenRefusedError ? error.refusal : null;
  if (refusal?.kind === 'database') return { type: 'failed', failure: failureOf(refusal.failure, 'not_started') };
  if (reachedLimitOf(error) !== null) return null;
  throw error;
}
