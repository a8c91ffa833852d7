import { MessageChannel } from 'node:worker_threads';
import { Piscina } from 'piscina';
import type { Observe } from '../events.ts';
import { type Channel, Link } from '../wire/link.ts';
import type { DatabaseAddress, FromWorker, ThreadTask, ToWorker, WorkerLimits } from '../wire/messages.ts';
import type { SpillUsage } from '../wire/spill-usage.ts';

export interface WorkerPoolOptions {
  readonly threads: number;
  readonly address: DatabaseAddress;
  readonly limits: WorkerLimits;
  readonly spillUsage: SpillUsage;
}

type WorkerLink = Link<ToWorker, FromWorker>;

/**
 * What a thread makes is short-lived and small, its rows aside, which lie outside of its heap. By default the room for such
 * would grow to 48 MB in each thread before it is swept.
 */
const youngGenerationMb = 6;

/** The threads that talk to the database. Each runs one task, which lasts as long as the thread, and has one link. */
export class WorkerPool implements AsyncDisposable {
  readonly #options: WorkerPoolOptions;
  readonly #piscina: Piscina;
  /** By their threads' numbers. */
  readonly #links = new Map<number, WorkerLink>();

  constructor(options: WorkerPoolOptions, observe: Observe) {
    this.#options = options;
    this.#piscina = new Piscina({
      // Compiled code runs from the build's folder, where the entry is JavaScript.
      filename: new URL('../worker/entry.js', import.meta.url).href,
      minThreads: options.threads,
      maxThreads: options.threads,
      resourceLimits: { maxYoungGenerationSizeMb: youngGenerationMb },
      // The default waits for tasks by blocking the thread, and with it every socket that the thread serves.
      atomics: 'disabled',
    });
    // Piscina starts another thread in place of one that failed; the links of that one close, and its leases are lost.
    this.#piscina.on('error', (error: Error) => observe({ type: 'worker_failed', error }));
    this.#startMissing();
  }

  /** A channel to the thread that has the fewest. */
  connect(): Channel<ToWorker, FromWorker> {
    this.#startMissing();
    const [first, ...others] = this.#links.values();
    let least = first as WorkerLink;
    for (const link of others) if (link.size < least.size) least = link;
    return least.open();
  }

  #startMissing(): void {
    for (let thread = 0; thread < this.#options.threads; thread++) {
      if (!this.#links.has(thread)) this.#start(thread);
    }
  }

  #start(thread: number): void {
    const { address, limits, spillUsage } = this.#options;
    const { port1, port2 } = new MessageChannel();
    const link: WorkerLink = new Link(port1);
    this.#links.set(thread, link);
    const task: ThreadTask = { port: port2, address, limits, thread, spillUsage: spillUsage.shared };
    const end = (): void => {
      this.#links.delete(thread);
      spillUsage.forget(thread);
      // Should the thread never have had the other end, nobody else closes this one.
      link.close();
    };
    // That a thread has failed, Piscina tells by an event of its own.
    this.#piscina.run(task, { transferList: [port2] }).then(end, end);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#piscina.destroy();
  }
}
