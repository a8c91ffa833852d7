import type { Config } from '../config/config.ts';
import type { Observe } from '../events.ts';
import type { Query } from '../query/query.ts';
import { ownedKey, type Tombstone, Tombstones } from '../tombstones.ts';
import { type Cause, causes } from '../wire/failures.ts';
import { ProgressPoller } from './progress-poller.ts';
import { loggedSql, rowsLostEvent, settledEvent } from './query-log.ts';

export type QueriesOptions = Config['queries'] & Pick<Config['log'], 'logSql'>;

/** The queries of one user. The entry is deleted with the last of them. */
class UserQueries {
  count = 0;
  running = 0;
  /** Queries that run, or have not been read to their end. */
  unread = 0;
  /** Queries that were read to their end, in the order in which that happened. */
  readonly read = new Set<Query>();
  /** Those of `read` whose only page was the first answer. */
  readonly singlePage = new Set<Query>();
}

interface Entry {
  readonly query: Query;
  readonly user: UserQueries;
  readonly timeoutMs: number;
  /** Its rows are kept on disk, for `timeoutMs` after its statement has ended, whether or not they are read. */
  readonly isKept: boolean;
  /** Of its expiry; null while a request waits for an answer. */
  timer: NodeJS.Timeout | null;
  polls: number;
  /** The time of the last answer while the server drains, by `performance.now()`; 0: none. */
  answeredAt: number;
  /** Runs from when the client has hung up until it comes back. */
  awayTimer: NodeJS.Timeout | null;
}

export type Admission = 'admitted' | 'server full' | 'user runs too many' | 'user leaves too many unread';

const closed = 'was finished by the client';

/**
 * All queries, and tombstones of those that were removed. Decides how long each query lives. A query is found by its user and
 * its id: an id that a client has chosen can be guessed, and another user may have chosen the same.
 */
export class Queries {
  readonly #options: QueriesOptions;
  readonly #observe: Observe;
  readonly #entries = new Map<string, Entry>();
  readonly #users = new Map<string, UserQueries>();
  /** Queries of all users whose only page was the first answer. */
  #singlePageCount = 0;
  /** Queries whose rows are kept on disk. They have a limit of their own. */
  #keptCount = 0;
  readonly #progressPoller = new ProgressPoller();
  readonly #tombstones: Tombstones;
  /** Tombstones of queries with an idempotency key. They have their own limit, so that other tombstones do not displace them. */
  readonly #keyedTombstones: Tombstones;
  #drain: { readonly startedAt: number; readonly idleMs: number; readonly done: () => void } | null = null;

  constructor(options: QueriesOptions, observe: Observe) {
    this.#options = options;
    this.#observe = observe;
    this.#tombstones = new Tombstones(options.resultTimeoutMs, options.removedQueriesMax);
    this.#keyedTombstones = new Tombstones(options.resultTimeoutMs, options.removedQueriesMax);
  }

  /** Whether the user may start one more. If there is no room, the oldest result that was read makes room. */
  admit(name: string): Admission {
    const user = this.#users.get(name);
    if (this.#entries.size - this.#keptCount >= this.#options.queriesMax) {
      const oldest = this.#oldestOfMost('read', user);
      if (oldest === undefined) return 'server full';
      this.#remove(oldest, 'was removed to make room: it had been read to its end', causes.cancelled());
    }
    if (user === undefined) return 'admitted';
    if (user.running >= this.#options.queriesPerUserMax) return 'user runs too many';
    if (user.unread >= this.#options.unreadPerUserMax) return 'user leaves too many unread';
    return 'admitted';
  }

  /**
   * The oldest of those queries that makes room for another: one of the user who has most of them, so that no user loses a result
   * because of one who keeps more.
   * @param user who needs the room, and makes it if no other has more
   */
  #oldestOfMost(kind: 'read' | 'singlePage', user?: UserQueries): Query | undefined {
    let most = user?.[kind] ?? new Set<Query>();
    for (const other of this.#users.values()) if (other[kind].size > most.size) most = other[kind];
    const [oldest] = most;
    return oldest;
  }

  /**
   * @param sql its statement, for the log
   * @param timeoutMs how long its result is kept after its last answer, or, on disk, after its end
   */
  add(query: Query, sql: string, timeoutMs = this.#options.resultTimeoutMs): void {
    const { id, owner, sessionId } = query.identity;
    const { user } = this.#enter(query, timeoutMs);
    user.running++;
    user.unread++;
    const logged = this.#options.logSql ? loggedSql(sql) : undefined;
    this.#followToEnd(query, user, logged);
    this.#progressPoller.add(query);
    this.#observe({ type: 'query_started', query: id, session: sessionId, user: owner });
  }

  /**
   * A result that an earlier process has kept on disk.
   * @param leftMs how long it is still kept
   */
  addKept(query: Query, leftMs: number): void {
    this.#enter(query, leftMs);
  }

  #enter(query: Query, timeoutMs: number): Entry {
    const { owner, isKept = false } = query.identity;
    let user = this.#users.get(owner);
    if (user === undefined) {
      user = new UserQueries();
      this.#users.set(owner, user);
    }
    user.count++;
    if (isKept) this.#keptCount++;
    const entry: Entry = { query, user, timeoutMs, isKept, timer: null, polls: 0, answeredAt: 0, awayTimer: null };
    this.#entries.set(query.key, entry);
    this.#startTimer(entry);
    return entry;
  }

  /** The user's query of that id, whose client has shown that it is still there. Queries of other users are not found. */
  find(id: string, user: string): Query | undefined {
    const entry = this.#entries.get(ownedKey(user, id));
    if (entry === undefined) return undefined;
    clearAway(entry);
    return entry.query;
  }

  /** Why the user's query of that id was removed, if it is remembered. */
  whyRemoved(id: string, user: string): string | undefined {
    return this.tombstone(id, user)?.reason;
  }

  /** The tombstone of the user's query of that id, if it is remembered. */
  tombstone(id: string, user: string): Tombstone | undefined {
    return this.#keyedTombstones.find(id, user) ?? this.#tombstones.find(id, user);
  }

  /** Whether the user has a query of that id, or it is remembered that there was one. */
  knows(id: string, user: string): boolean {
    return this.#entries.has(ownedKey(user, id)) || this.tombstone(id, user) !== undefined;
  }

  /** Suspends the expiry of a query while a request waits for an answer. Call `release` when the answer has left. */
  hold(query: Query): void {
    const entry = this.#entryOf(query);
    if (entry === undefined) return;
    entry.polls++;
    if (!entry.isKept) clearExpiry(entry);
  }

  release(query: Query): void {
    const entry = this.#entryOf(query);
    if (entry === undefined) return;
    entry.polls--;
    this.#answered(entry);
  }

  /** The client hung up before it had its answer. Unless it comes back in time, its statement is cancelled. */
  hungUp(query: Query): void {
    const entry = this.#entryOf(query);
    const { onDisconnect, disconnectMs } = this.#options;
    // Another poll is a client that is still there.
    if (onDisconnect === 'continue' || entry === undefined || entry.isKept) return;
    if (entry.polls > 0 || !query.isRunning) return;
    clearAway(entry);
    entry.awayTimer = setTimeout(() => query.cancelByClient(causes.hungUp(disconnectMs / 1_000)), disconnectMs);
  }

  /** Restarts the expiry timer of a query, after an answer that did not wait. */
  touch(query: Query): void {
    const entry = this.#entryOf(query);
    if (entry !== undefined) this.#answered(entry);
  }

  #answered(entry: Entry): void {
    if (entry.query.isDrained && !entry.isKept) this.#keepRead(entry);
    if (entry.polls === 0) this.#startTimer(entry);
    if (this.#drain !== null) entry.answeredAt = performance.now();
    this.#checkRead();
  }

  /**
   * A client that never finishes its small statements would leave thousands of records behind, each with its rows. A result that
   * fitted in the first answer has no page that could be requested again, as nobody knew its id before that answer.
   */
  #keepRead({ query, user }: Entry): void {
    if (!user.read.has(query)) user.unread--;
    user.read.add(query);
    if (!isSinglePage(query) || user.singlePage.has(query)) return;
    user.singlePage.add(query);
    this.#singlePageCount++;
    if (this.#singlePageCount <= this.#options.singlePageResultsMax) return;
    const oldest = this.#oldestOfMost('singlePage', user);
    if (oldest !== undefined)
      this.#remove(oldest, 'was removed to make room: its first answer was the whole result', causes.cancelled());
  }

  /** Removes a query that its client has finished. */
  finish(query: Query, reason = closed): void {
    this.#remove(query, reason, causes.cancelled());
  }

  cancelAll(): void {
    for (const { query } of this.#entries.values()) query.cancel(causes.shuttingDown());
  }

  get size(): number {
    return this.#entries.size;
  }

  /**
   * Resolves when each query has been read to its end or has not been polled for `idleMs`, or when the time has passed.
   */
  async read(timeoutMs: number, idleMs: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    let idleTimer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      timer = setTimeout(resolve, timeoutMs);
      idleTimer = setInterval(() => this.#checkRead(), Math.max(10, Math.min(250, idleMs / 4)));
      this.#drain = { startedAt: performance.now(), idleMs, done: resolve };
      this.#checkRead();
    });
    clearTimeout(timer);
    clearInterval(idleTimer);
    this.#drain = null;
  }

  close(): void {
    this.#progressPoller.close();
    const entries = [...this.#entries.values()];
    this.#entries.clear();
    for (const entry of entries) {
      clearExpiry(entry);
      clearAway(entry);
      entry.query.remove(causes.shuttingDown());
    }
  }

  #entryOf({ key }: Query): Entry | undefined {
    return this.#entries.get(key);
  }

  #startTimer(entry: Entry): void {
    if (entry.isKept && (entry.query.isRunning || entry.timer !== null)) return;
    if (entry.timer === null) entry.timer = setTimeout(() => this.#expire(entry), entry.timeoutMs);
    else entry.timer.refresh();
  }

  #expire({ query, timeoutMs, isKept }: Entry): void {
    const secs = timeoutMs / 1_000;
    if (isKept) this.#remove(query, 'expired: its result is no longer kept', causes.expired(secs));
    else this.#remove(query, `expired: not polled for ${secs} s`, causes.expired(secs));
  }

  #remove(query: Query, reason: string, cause: Cause): void {
    const { id, owner } = query.identity;
    const { key } = query;
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    clearExpiry(entry);
    clearAway(entry);
    this.#entries.delete(key);
    this.#progressPoller.delete(query);
    const { user } = entry;
    if (entry.isKept) this.#keptCount--;
    // A kept result counts as read when its statement has ended.
    const isRead = user.read.delete(query) || (entry.isKept && !query.isRunning);
    if (!isRead) user.unread--;
    if (user.singlePage.delete(query)) this.#singlePageCount--;
    user.count--;
    if (user.count === 0) this.#users.delete(owner);
    const isLost = !query.isDrained && reason !== closed;
    query.remove(cause);
    const { state } = query;
    const code = state.name === 'Failed' ? state.failure.code : isLost ? cause.code : null;
    const tombstones = query.identity.hasIdempotencyKey === true ? this.#keyedTombstones : this.#tombstones;
    tombstones.add(id, owner, reason, code);
    this.#observe({ type: 'query_removed', query: id, user: owner, reason });
    this.#checkRead();
  }

  #checkRead(): void {
    if (this.#drain === null) return;
    const { startedAt, idleMs, done } = this.#drain;
    const now = performance.now();
    for (const { query, polls, answeredAt } of this.#entries.values()) {
      const isIdle = now - Math.max(startedAt, answeredAt) >= idleMs;
      if (polls > 0 || !(query.isDrained || isIdle)) return;
    }
    done();
  }

  #followToEnd(query: Query, user: UserQueries, sql: string | undefined): void {
    query.on('settled', () => {
      if (query.isDraining) query.on('rowsLost', () => this.#observeRowsLost(query));
      user.running--;
      const entry = this.#entryOf(query);
      if (entry?.isKept) {
        user.unread--;
        this.#startTimer(entry);
      }
      this.#progressPoller.delete(query);
      this.#observe(settledEvent(query, sql));
      // One that its client has cancelled is not read any more.
      this.#checkRead();
    });
  }

  /** The rows of a query that is removed are given up, and not lost. */
  #observeRowsLost(query: Query): void {
    const { state } = query;
    if (state.name === 'Failed' && this.#entryOf(query) !== undefined)
      this.#observe(rowsLostEvent(query, state.failure));
  }
}

/** Whether the first answer held the whole result, and nobody can request it again. */
function isSinglePage({ identity, isSinglePage }: Query): boolean {
  return isSinglePage && identity.hasIdempotencyKey !== true && identity.needsFinal !== true;
}

function clearExpiry(entry: Entry): void {
  if (entry.timer !== null) clearTimeout(entry.timer);
  entry.timer = null;
}

function clearAway(entry: Entry): void {
  if (entry.awayTimer !== null) clearTimeout(entry.awayTimer);
  entry.awayTimer = null;
}
