import { EventEmitter } from 'node:events';
import type { MessagePort } from 'node:worker_threads';

interface ChannelEvents<Received> {
  message: [message: Received];
  /** It is closed, by either side or because the other thread has ended; nothing follows. */
  close: [reason?: string];
}

/** One of the many conversations on a link. What is posted arrives in order, and nothing after `close`. */
export class Channel<Sent, Received> extends EventEmitter<ChannelEvents<Received>> {
  readonly number: number;
  readonly #link: Link<Sent, Received>;

  /** Made by `Link` alone. */
  constructor(number: number, link: Link<Sent, Received>) {
    super();
    this.number = number;
    this.#link = link;
  }

  /** @param transfer memory that is handed over instead of copied */
  post(message: Sent, transfer?: ArrayBuffer): void {
    this.#link.send(this, message, transfer);
  }

  close(): void {
    this.#link.closeChannel(this);
  }

  /** Whether the other thread is at hand, as far as is known. */
  get isAnswering(): boolean {
    return this.#link.isAnswering;
  }
}

/**
 * One end of the way between the main thread and a worker. It carries many channels over one MessagePort: whatever is posted
 * in one turn of the event loop crosses in one message, since to wake the other thread costs more than what is said.
 */
export class Link<Sent, Received> {
  readonly #port: MessagePort;
  readonly #accept: ((channel: Channel<Sent, Received>) => void) | null;
  readonly #channels = new Map<number, Channel<Sent, Received>>();
  /** Numbers of channels, each followed by a message for it, or by null if the channel is closed. */
  #parcel: unknown[] = [];
  #transfer: ArrayBuffer[] = [];
  #lastNumber = 0;
  #isClosed = false;

  /** Said by whoever watches over the other thread. */
  isAnswering = true;

  /**
   * @param accept told of each channel that the other end opens; null for the end that opens them
   * @param closesWithPort false: when the thread behind the port dies, somebody else calls `close`, who knows the reason
   */
  constructor(
    port: MessagePort,
    accept: ((channel: Channel<Sent, Received>) => void) | null = null,
    closesWithPort = true,
  ) {
    this.#port = port;
    this.#accept = accept;
    port.on('message', (parcel: readonly unknown[]) => this.#receive(parcel));
    // The port closes by itself when the thread behind it dies.
    if (closesWithPort) port.on('close', () => this.close());
  }

  /** Channels that are open. */
  get size(): number {
    return this.#channels.size;
  }

  /** Opens a channel; the other end learns of it with the first message. */
  open(): Channel<Sent, Received> {
    return this.#add(this.#lastNumber + 1);
  }

  /**
   * Closes every channel and the port. What was posted in this turn of the event loop may not arrive.
   * @param reason for the channels to tell
   */
  close(reason?: string): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#port.close();
    const channels = [...this.#channels.values()];
    this.#channels.clear();
    for (const channel of channels) channel.emit('close', reason);
  }

  /** For `Channel`. */
  send(channel: Channel<Sent, Received>, message: Sent, transfer?: ArrayBuffer): void {
    if (this.#channels.get(channel.number) !== channel) return;
    this.#put(channel.number, message);
    if (transfer !== undefined) this.#transfer.push(transfer);
  }

  /** For `Channel`. */
  closeChannel(channel: Channel<Sent, Received>): void {
    if (!this.#channels.delete(channel.number)) return;
    this.#put(channel.number, null);
    channel.emit('close');
  }

  #put(number: number, message: Sent | null): void {
    if (this.#parcel.length === 0) setImmediate(() => this.#flush());
    this.#parcel.push(number, message);
  }

  #flush(): void {
    const parcel = this.#parcel;
    const transfer = this.#transfer;
    this.#parcel = [];
    this.#transfer = [];
    if (!this.#isClosed) this.#port.postMessage(parcel, transfer);
  }

  #add(number: number): Channel<Sent, Received> {
    const channel = new Channel(number, this);
    this.#lastNumber = number;
    this.#channels.set(number, channel);
    return channel;
  }

  #receive(parcel: readonly unknown[]): void {
    for (let at = 0; at < parcel.length; at += 2) {
      const number = parcel[at] as number;
      const message = parcel[at + 1] as Received | null;
      let channel = this.#channels.get(number);
      if (channel === undefined && this.#accept !== null && number > this.#lastNumber) {
        channel = this.#add(number);
        this.#accept(channel);
      }
      if (message !== null) {
        channel?.emit('message', message);
      } else if (channel !== undefined) {
        this.#channels.delete(number);
        channel.emit('close');
      }
    }
  }
}
