import type { MessagePort } from 'node:worker_threads';
import { type Channel, Link } from '../wire/link.ts';
import type { FromWorker, ToWorker } from '../wire/messages.ts';
import { nextPhase, type Transitions } from '../wire/phase.ts';

export interface WorkerThreadOwner {
  /** The thread is about to end. The owner calls `close` when it has ended. */
  onEnding(thread: WorkerThread): void;
}

type Phase = 'starting' | 'running' | 'closed';

const transitions: Transitions<Phase> = {
  starting: ['running', 'closed'],
  running: ['closed'],
  closed: [],
};

/**
 * The main thread's end of one worker thread: the link that carries its connections, and a channel for pings.
 *
 *     starting ──▶ running ──▶ closed
 *        └─────────────────────▲
 *
 *     starting    it has answered no ping yet
 */
export class WorkerThread {
  readonly link: Link<ToWorker, FromWorker>;
  readonly #pings: Channel<ToWorker, FromWorker>;
  #phase: Phase = 'starting';
  #id: number | null = null;
  /** Calls of `ping` since the last answer. */
  #unanswered = 0;

  /**
   * @param port to the thread
   * @param owner calls `close` when the thread has ended
   */
  constructor(port: MessagePort, owner: WorkerThreadOwner) {
    port.on('close', () => owner.onEnding(this));
    this.link = new Link(port, null, false);
    this.#pings = this.link.open();
    this.#pings.on('message', (message) => {
      if (message.type !== 'pong') return;
      if (this.#phase === 'starting') this.#enter('running');
      this.#id = message.thread;
      this.#unanswered = 0;
    });
    this.ping();
  }

  /** Its id among the threads of the process; null while it is starting. */
  get id(): number | null {
    return this.#id;
  }

  get isClosed(): boolean {
    return this.#phase === 'closed';
  }

  /**
   * Sends a ping, unless one is unanswered.
   * @returns how often this method was called since the last answer
   */
  ping(): number {
    if (this.#unanswered === 0) this.#pings.post({ type: 'ping' });
    return this.#unanswered++;
  }

  /** @param reason reported by its leases */
  close(reason: string): void {
    if (this.#phase !== 'closed') this.#enter('closed');
    this.link.close(reason);
  }

  #enter(phase: Phase): void {
    this.#phase = nextPhase(transitions, this.#phase, phase);
  }
}
