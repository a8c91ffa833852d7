import { newSessionId } from '../ids.ts';
import type { QueryRequest } from '../protocol/request.ts';
import type { Buffers } from '../query/buffers.ts';
import type { Query, RunStatement } from '../query/query.ts';
import type { Queue, Waiter } from '../query/queue.ts';
import type { Account } from '../session/accounts.ts';
import { RefusedError } from '../session/lease.ts';
import type { RunElsewhere, Session } from '../session/session.ts';
import type { Sessions } from '../session/sessions.ts';
import { causes, type Failure, failureOf } from '../wire/failures.ts';
import {
  noExtras,
  type Statement,
  type StatementHandle,
  type StatementObserver,
  type StatementRequest,
} from '../wire/statement.ts';
import { httpErrors } from './http-error.ts';

/** Where a statement may run; a failure if it cannot run anywhere. */
export type Place = Session | Failure;

/** null: it has to wait. */
type Opened = Place | null | Promise<Place | null>;

/** Brings statements to their sessions: at once if there is what they need, else when it is their turn. */
export class Statements {
  readonly #sessions: Sessions;
  readonly #buffers: Buffers;
  readonly #queue: Queue;
  readonly #queueWaitMs: number;

  constructor(sessions: Sessions, buffers: Buffers, queue: Queue, queueWaitMs: number) {
    this.#sessions = sessions;
    this.#buffers = buffers;
    this.#queue = queue;
    this.#queueWaitMs = queueWaitMs;
  }

  /**
   * Where the statement may run now.
   * @returns null if it has to wait for memory or a connection, and may
   * @throws HttpError 429 or 503, also by the promise, if it would have to wait and too many do
   * @throws RefusedError, also by the promise
   */
  place(body: QueryRequest, account: Account): Opened {
    // Whenever there is a connection again, the queue has been gone through: those of others who wait must not have it.
    const isNext = body.session.type === 'old' || !this.#queue.hasWaiting(account.user);
    const place = isNext && this.#buffers.hasRoomFor(account.user) ? this.#open(body, account) : null;
    return place instanceof Promise
      ? place.then((opened) => this.#checkQueue(opened, account))
      : this.#checkQueue(place, account);
  }

  #checkQueue(place: Place | null, { user }: Account): Place | null {
    if (place !== null) return place;
    switch (this.#queue.admit(user)) {
      case 'admitted':
        return null;
      case 'full':
        throw httpErrors.unavailable('as many statements wait for a connection or for memory as may (--queue_max)');
      case 'user full':
        throw httpErrors.tooManyRequests(
          'as many statements of this user wait for a connection or for memory as may, so that other users find a place ' +
            '(--queue_max): wait until some of them have begun',
        );
    }
  }

  /**
   * The request as it is to be run. A client that has several statements under way may send one with the handle of a session
   * that another has ended without loss, as a COMMIT does; the statement then runs in a session of its own.
   */
  current(body: QueryRequest, { user }: Account): QueryRequest {
    const { session } = body;
    if (session.type !== 'old' || session.otherwise === undefined) return body;
    const isOver = session.whyEnded === undefined && this.#sessions.hasEndedWithoutLoss(session.id, user);
    return isOver ? { ...body, session: session.otherwise } : body;
  }

  /**
   * Runs the statement there. The query observes it.
   * @param onMoved called if the session ends without loss before its turn, and it runs in a session of its own
   */
  run(query: Query, body: QueryRequest, account: Account, place: Place, onMoved: () => void = () => {}): void {
    if (!isSession(place)) {
      query.failed(place);
      return;
    }
    const again = place.isKept ? null : this.#runInTurn(body, account, place.id);
    const elsewhere = this.#elsewhere(query, body, account, onMoved);
    query.start(statementOf(body), (request, observer) => place.run(request, observer, elsewhere), again);
  }

  #elsewhere(query: Query, body: QueryRequest, account: Account, onMoved: () => void): RunElsewhere | null {
    if (body.session.type !== 'old' || body.session.otherwise === undefined) return null;
    const moved: QueryRequest = { ...body, session: body.session.otherwise };
    return (request, observer) => {
      // The id of the session that has ended could be taken by several at once.
      query.moveTo(newSessionId());
      onMoved();
      const run = this.#runInTurn(moved, account, query.identity.sessionId);
      return run({ ...request, extras: statementOf(moved).extras }, observer);
    };
  }

  /** Runs the statement when it is its turn. */
  runLater(query: Query, body: QueryRequest, account: Account, sessionId: string): void {
    const inTurn = this.#runInTurn(body, account, sessionId);
    const { session } = body;
    const isAlone = session.type === 'carried' || (session.type === 'new' && session.maxIdleSecs === 0);
    query.start(statementOf(body), inTurn, isAlone ? inTurn : null);
  }

  #runInTurn(body: QueryRequest, account: Account, sessionId: string): RunStatement {
    return (request, observer) => {
      const open = (): Opened => this.#open(body, account, sessionId);
      const needsConnection = body.session.type !== 'old';
      const waiter = { user: account.user, needsConnection, open };
      const statement = new QueuedStatement(waiter, request, observer, this.#queue, this.#queueWaitMs);
      this.#queue.add(statement);
      this.#queue.advance();
      return statement;
    };
  }

  /** @returns null, also by the promise, if there is no connection for it */
  #open({ session }: QueryRequest, account: Account, sessionId?: string): Opened {
    if (session.type === 'old') {
      const { id } = session;
      const found = this.#sessions.find(id, account.user);
      if (found !== undefined) return found;
      const reason = session.whyEnded ?? this.#sessions.whyEnded(id, account.user);
      return failureOf(
        reason === undefined ? causes.noSuchSession(id) : causes.heldSessionEnded(reason),
        'not_started',
      );
    }
    const opened =
      session.type === 'carried'
        ? this.#sessions.openCarried(account, session.database, session.client, sessionId)
        : this.#sessions.open(account, session.database, session.maxIdleSecs * 1_000, sessionId);
    return opened instanceof Promise ? opened.catch(placeOfRefusal) : opened;
  }
}

/** A statement that waits for its turn, and then runs. */
class QueuedStatement implements StatementHandle, Waiter {
  readonly user: string;
  readonly needsConnection: boolean;
  /** Opens its session; null when that is done, since it knows a password. */
  #open: (() => Opened) | null;
  readonly #request: StatementRequest;
  readonly #observer: StatementObserver;
  readonly #queue: Queue;
  readonly #waitMs: number;
  #handle: StatementHandle | null = null;
  #isCancelled = false;
  readonly #queuedAt = performance.now();

  constructor(
    { user, needsConnection, open }: { user: string; needsConnection: boolean; open: () => Opened },
    request: StatementRequest,
    observer: StatementObserver,
    queue: Queue,
    waitMs: number,
  ) {
    this.user = user;
    this.needsConnection = needsConnection;
    this.#open = open;
    this.#request = request;
    this.#observer = observer;
    this.#queue = queue;
    this.#waitMs = waitMs;
  }

  start(): boolean {
    const open = this.#open;
    let place: Opened | undefined;
    try {
      place = open?.();
    } catch (error) {
      this.#fail(error);
    }
    if (place === null) return false;
    this.#open = null;
    if (place instanceof Promise) {
      place.then(
        (opened) => (opened === null ? this.#waitAgain(open) : this.#run(opened)),
        (error: unknown) => this.#fail(error),
      );
    } else if (place !== undefined) {
      this.#run(place);
    }
    return true;
  }

  giveUp(): void {
    this.#open = null;
    this.#observer.failed(failureOf(causes.queueTimeout(this.#waitMs / 1_000), 'not_started'));
  }

  credit(bytes: number, rows: number): void {
    this.#handle?.credit(bytes, rows);
  }

  askExamined(): void {
    this.#handle?.askExamined();
  }

  place(): number | null {
    return this.#handle === null ? this.#queue.position(this) || null : this.#handle.place();
  }

  cancel(): void {
    this.#isCancelled = true;
    if (this.#handle !== null) this.#handle.cancel();
    else this.#queue.remove(this);
  }

  /** The database has refused the connection that it was begun on, since a limit of its own is reached. */
  #waitAgain(open: (() => Opened) | null): void {
    if (this.#isCancelled) return;
    this.#open = open;
    this.#queue.putBack(this, performance.now() - this.#queuedAt);
  }

  #run(place: Place): void {
    if (!isSession(place)) {
      if (!this.#isCancelled) this.#observer.failed(place);
    } else if (this.#isCancelled) {
      // It has just been opened for this statement alone.
      place.end('its statement was cancelled before it was sent');
    } else {
      this.#handle = place.run(this.#request, this.#observer);
    }
  }

  #fail(error: unknown): void {
    if (!(error instanceof RefusedError)) throw error;
    if (this.#isCancelled) return;
    this.#observer.failed(failureOf({ ...error.refusal.failure, isPassing: true }, 'not_started'));
  }
}

function statementOf({ sql, traits, params, cells, session }: QueryRequest): Statement {
  const variables = session.type === 'carried' ? session.variables : null;
  const isText = params === undefined && cells === undefined && variables === null;
  const extras = isText ? null : { params: params ?? null, variables: variables ?? {}, cells: cells ?? noExtras.cells };
  return traits === undefined ? { sql, extras } : { sql, traits, extras };
}

export function isSession(place: Place): place is Session {
  return 'id' in place;
}

/**
 * Decides about a statement whose connection the database has refused. It waits if the database has no free connection, else it
 * fails.
 */
function placeOfRefusal(error: unknown): Failure | null {
  const refusal = error instanceof RefusedError ? error.refusal : null;
  if (refusal?.kind === 'database') return failureOf(refusal.failure, 'not_started');
  if (refusal?.kind === 'full' || refusal?.kind === 'user full') return null;
  throw error;
}
