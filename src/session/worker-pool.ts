import { MessageChannel } from 'node:worker_threads';
import type { Config } from '../config/config.ts';
import type { Observe } from '../events.ts';
import { openThreadPool, type ThreadPool } from '../thread-pool.ts';
import { LargeResults } from '../wire/large-results.ts';
import type { Channel } from '../wire/link.ts';
import type { DatabaseAddress, FromWorker, Login, ThreadTask, ToWorker, WorkerLimits } from '../wire/messages.ts';
import type { SpillUsage } from '../wire/spill-usage.ts';
import { WorkerThread, type WorkerThreadOwner } from './worker-thread.ts';

export type WorkerPoolOptions = Config['threads'] & {
  readonly address: DatabaseAddress;
  readonly limits: WorkerLimits;
  readonly spillUsage: SpillUsage;
};

/** Follows the database connections of the threads. */
export interface ConnectionFollower {
  /** @param id of the connection in the database */
  opened(id: number, login: Login): void;
  closed(id: number): void;
  /** The connection or its thread is lost. A statement of it may still run in the database. */
  lost(id: number, user: string, openedAt: number): void;
}

/**
 * Objects in a thread are small and short-lived, and rows are outside of its heap. By default, the young generation would grow to
 * 48 MB in each thread before it is collected.
 */
const youngGenerationMb = 6;

const pingIntervalMs = 1_000;
/** A thread with this many unanswered pings gets no statements while another thread answers. */
const unansweredMax = 2;
/** A starting thread has at least this long to answer. */
const startMs = 30_000;

/**
 * The threads that have the connections to the database. Each has one link, and runs one task, which lasts as long as the
 * thread.
 */
export class WorkerPool implements AsyncDisposable, WorkerThreadOwner {
  readonly #options: WorkerPoolOptions;
  readonly #observe: Observe;
  readonly #pool: ThreadPool;
  readonly #threads = new Set<WorkerThread>();
  /** The slots of the spill usage that are in use. */
  readonly #slots = new Set<number>();
  /** See `LargeResults`. */
  readonly #largeResults = new SharedArrayBuffer(LargeResults.bytes);
  readonly #pingTimer: NodeJS.Timeout;
  #follower: ConnectionFollower | null = null;
  #isClosed = false;

  constructor(options: WorkerPoolOptions, observe: Observe) {
    const { workerThreads: threads } = options;
    this.#options = options;
    this.#observe = observe;
    const file = new URL('../worker/entry.js', import.meta.url);
    this.#pool = openThreadPool({ file, minThreads: threads, maxThreads: threads, youngGenerationMb }, observe);
    this.#startMissing();
    this.#pingTimer = setInterval(() => this.#ping(), pingIntervalMs).unref();
  }

  follow(follower: ConnectionFollower): void {
    this.#follower = follower;
  }

  /**
   * Opens a channel to the thread that has the fewest, of those that answer.
   * @param login the login of the connection that it is for; null: it is for none
   */
  connect(login: Login | null = null): Channel<ToWorker, FromWorker> {
    this.#startMissing();
    const [first, ...others] = this.#threads;
    let { link: least } = first as WorkerThread;
    for (const { link } of others) {
      if (link.isAnswering !== least.isAnswering ? link.isAnswering : link.size < least.size) least = link;
    }
    const channel = least.open();
    if (login !== null && this.#follower !== null) follow(channel, login, this.#follower);
    return channel;
  }

  #startMissing(): void {
    while (this.#threads.size < this.#options.workerThreads) this.#start();
  }

  #start(): void {
    const { address, limits, spillUsage } = this.#options;
    const largeResults = this.#largeResults;
    const { port1, port2 } = new MessageChannel();
    const thread = new WorkerThread(port1, this);
    this.#threads.add(thread);
    const slot = this.#takeSlot();
    const task: ThreadTask = { port: port2, address, limits, slot, spillUsage: spillUsage.shared, largeResults };
    const run = this.#pool.run(task, { transferList: [port2] }).finally(() => {
      spillUsage.forget(slot);
      this.#slots.delete(slot);
    });
    run.then(
      () => this.#end(thread, 'its worker thread ended'),
      (error: Error) => {
        // A thread that was replaced has been reported, and one that ends because the server stops is no failure.
        if (!this.#isClosed && !thread.isClosed) this.#observe({ type: 'worker_failed', error });
        this.#end(thread, `its worker thread failed: ${error.message}`);
      },
    );
  }

  /** A free slot. If there is none, the last one is shared, and its counts are reset too early. */
  #takeSlot(): number {
    let slot = 0;
    while (this.#slots.has(slot) && slot < this.#options.spillUsage.slots - 1) slot++;
    this.#slots.add(slot);
    return slot;
  }

  /** For `WorkerThread`: it gets no further connections. */
  onEnding(thread: WorkerThread): void {
    this.#threads.delete(thread);
  }

  /** Closes the link. The thread does not, if it never received the other end. */
  #end(thread: WorkerThread, reason: string): void {
    this.#threads.delete(thread);
    thread.close(reason);
  }

  #ping(): void {
    this.#startMissing();
    const { workerStallMs } = this.#options;
    const unanswered = new Map([...this.#threads].map((thread) => [thread, thread.ping()]));
    const answers = (thread: WorkerThread): boolean => (unanswered.get(thread) ?? 0) < unansweredMax;
    const anyAnswers = [...this.#threads].some(answers);
    for (const [thread, pings] of unanswered) {
      thread.link.isAnswering = !anyAnswers || answers(thread);
      const patienceMs = thread.id === null ? Math.max(workerStallMs, startMs) : workerStallMs;
      if (pings * pingIntervalMs >= patienceMs) this.#replace(thread, patienceMs / 1_000);
    }
  }

  /** Ends a thread that does not answer. Its statements may still run in the database. */
  #replace(thread: WorkerThread, secs: number): void {
    const reason = `did not answer for ${secs} s and was replaced (--worker_stall_secs)`;
    this.#observe({ type: 'worker_failed', error: new Error(`a worker thread ${reason}`) });
    this.#end(thread, `its worker thread ${reason}`);
    const known = new Set([...this.#threads].map(({ id }) => id));
    // The id of a thread that has never answered is not known: it is one of the unknown ids.
    const worker = this.#pool.threads.find(({ threadId }) =>
      thread.id === null ? !known.has(threadId) : threadId === thread.id,
    );
    void worker?.terminate();
    this.#startMissing();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#pingTimer);
    await this.#pool.destroy();
  }
}

/** Follows the connection of a channel, if the first message reports that it is open. */
function follow(channel: Channel<ToWorker, FromWorker>, login: Login, follower: ConnectionFollower): void {
  channel.once('message', (message) => {
    if (message.type !== 'opened') return;
    follower.opened(message.connection, login);
    followToEnd(channel, message.connection, login.user, follower);
  });
}

/** A function of its own, since closures in `follow` would hold the login, with its password, as long as the connection lives. */
function followToEnd(
  channel: Channel<ToWorker, FromWorker>,
  connection: number,
  user: string,
  follower: ConnectionFollower,
): void {
  const openedAt = Date.now();
  let isLost = false;
  const lost = (): void => {
    isLost = true;
    follower.lost(connection, user, openedAt);
  };
  channel.on('message', (message) => {
    if (message.type === 'lost' && message.mayRunOn) lost();
  });
  channel.once('close', (reason) => {
    if (isLost) return;
    // A reason is given only if the thread has ended.
    if (reason === undefined) follower.closed(connection);
    else lost();
  });
}
