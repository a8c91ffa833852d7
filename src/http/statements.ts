import type { QueryRequest } from '../protocol/v1/request.ts';
import type { Buffers } from '../query/buffers.ts';
import type { Query, RunStatement } from '../query/query.ts';
import type { Queue, Waiter } from '../query/queue.ts';
import type { Account } from '../session/accounts.ts';
import { RefusedError } from '../session/lease.ts';
import type { Session } from '../session/session.ts';
import type { Sessions } from '../session/sessions.ts';
import { causes, type Failure, failureOf } from '../wire/failures.ts';
import type { StatementHandle, StatementObserver, StatementRequest } from '../wire/statement.ts';
import { httpErrors } from './http-error.ts';

/** Where a statement may run; a failure if it cannot run anywhere. */
export type Place = Session | Failure;

/** Brings statements to their sessions: at once if there is what they need, else when it is their turn. */
export class Statements {
  readonly #sessions: Sessions;
  readonly #buffers: Buffers;
  readonly #queue: Queue;
  readonly #queueWaitSecs: number;

  constructor(sessions: Sessions, buffers: Buffers, queue: Queue, queueWaitSecs: number) {
    this.#sessions = sessions;
    this.#buffers = buffers;
    this.#queue = queue;
    this.#queueWaitSecs = queueWaitSecs;
  }

  /**
   * Where the statement may run now.
   * @returns null if it has to wait for memory or a connection, and may
   * @throws HttpError 503 if it would have to wait and too many do
   * @throws RefusedError, be it by the promise
   */
  place(body: QueryRequest, account: Account): Place | Promise<Place> | null {
    const isRoom = this.#buffers.hasRoom && (body.session.type === 'old' || this.#queue.size === 0);
    const place = isRoom ? this.#open(body, account) : null;
    if (place === null && this.#queue.isFull) {
      throw httpErrors.unavailable('as many statements wait for a connection or for memory as may (--queue_max)');
    }
    return place;
  }

  /** Runs the statement there, and tells the query what becomes of it. */
  run(query: Query, body: QueryRequest, account: Account, place: Place): void {
    if (!isSession(place)) {
      query.failed(place);
      return;
    }
    const again = place.isKept ? null : this.#runInTurn(body, account, place.id);
    query.start(body.sql, (request, observer) => place.run(request, observer), again);
  }

  /** Runs the statement when it is its turn. */
  runLater(query: Query, body: QueryRequest, account: Account, sessionId: string): void {
    const inTurn = this.#runInTurn(body, account, sessionId);
    const isAlone = body.session.type === 'new' && body.session.maxIdleSecs === 0;
    query.start(body.sql, inTurn, isAlone ? inTurn : null);
  }

  #runInTurn(body: QueryRequest, account: Account, sessionId: string): RunStatement {
    return (request, observer) => {
      const handle = this.#enqueue(request, observer, body, account, sessionId);
      this.#queue.advance();
      return handle;
    };
  }

  #enqueue(
    request: StatementRequest,
    observer: StatementObserver,
    body: QueryRequest,
    account: Account,
    sessionId: string,
  ): StatementHandle {
    let handle: StatementHandle | null = null;
    let isCancelled = false;
    const run = (place: Place): void => {
      if (!isSession(place)) observer.failed(place);
      else if (isCancelled) place.end('its statement was cancelled before it was sent');
      else handle = place.run(request, observer);
    };
    const fail = (error: unknown): void => {
      if (!(error instanceof RefusedError)) throw error;
      if (!isCancelled) observer.failed(failureOf({ ...error.refusal.failure, isPassing: true }, 'not_started'));
    };
    const waiter: Waiter = {
      user: account.user,
      start: () => {
        let place: Place | Promise<Place> | null;
        try {
          place = this.#open(body, account, sessionId);
        } catch (error) {
          fail(error);
          return true;
        }
        if (place === null) return false;
        if (place instanceof Promise) place.then(run, fail);
        else run(place);
        return true;
      },
      giveUp: () => observer.failed(failureOf(causes.queueTimeout(this.#queueWaitSecs), 'not_started')),
    };
    this.#queue.add(waiter);
    return {
      credit: (bytes, rows) => handle?.credit(bytes, rows),
      askExamined: () => handle?.askExamined(),
      place: () => (handle === null ? this.#queue.position(waiter) || null : handle.place()),
      cancel: () => {
        isCancelled = true;
        if (handle !== null) handle.cancel();
        else this.#queue.remove(waiter);
      },
    };
  }

  /** @returns null if there is no connection for it */
  #open({ session }: QueryRequest, account: Account, sessionId?: string): Place | Promise<Place> | null {
    if (session.type === 'old') {
      const found = this.#sessions.find(session.id, account.user);
      return found ?? failureOf(causes.noSuchSession(session.id), 'not_started');
    }
    const opened = this.#sessions.open(account, session.database, session.maxIdleSecs * 1_000, sessionId);
    return opened instanceof Promise ? opened.catch(failureOfDatabase) : opened;
  }
}

export function isSession(place: Place): place is Session {
  return 'id' in place;
}

/** Why the statement fails, of a connection that the database refused on its account. */
function failureOfDatabase(error: unknown): Failure {
  if (error instanceof RefusedError && error.refusal.kind === 'database') {
    return failureOf(error.refusal.failure, 'not_started');
  }
  throw error;
}
