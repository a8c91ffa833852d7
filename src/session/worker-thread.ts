import type { MessagePort } from 'node:worker_threads';
import { type Channel, Link } from '../wire/link.ts';
import type { FromWorker, ToWorker } from '../wire/messages.ts';

/**
 * The main thread's end of one worker thread: the link that carries its connections, and a channel of it by which the
 * thread tells that it lives.
 */
export class WorkerThread {
  readonly link: Link<ToWorker, FromWorker>;
  readonly #pulse: Channel<ToWorker, FromWorker>;
  #id: number | null = null;
  /** Pings since the last answer; more than one is only sent when that has come. */
  #unanswered = 0;
  #isClosed = false;

  /**
   * @param port to the thread
   * @param dying called when the thread is about to end; when it has, whoever started it says so by `close`
   */
  constructor(port: MessagePort, dying: () => void) {
    port.on('close', dying);
    this.link = new Link(port, null, false);
    this.#pulse = this.link.open();
    this.#pulse.on('message', (message) => {
      if (message.type !== 'pong') return;
      this.#id = message.thread;
      this.#unanswered = 0;
    });
    this.ping();
  }

  /** Its number among the threads of the process, or null while it has not answered once. */
  get id(): number | null {
    return this.#id;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /**
   * Asks for a sign of life.
   * @returns how often it has been asked, or would have been, since it answered last
   */
  ping(): number {
    if (this.#unanswered === 0) this.#pulse.post({ type: 'ping' });
    return this.#unanswered++;
  }

  /** @param reason what its leases tell */
  close(reason: string): void {
    this.#isClosed = true;
    this.link.close(reason);
  }
}
