import { EventEmitter } from 'node:events';
import type { MessagePort } from 'node:worker_threads';

interface ChannelEvents<Received> {
  message: [message: Received];
  /** Either side has closed the channel, or the other thread has ended. No event follows. */
  close: [reason?: string];
}

/** One of many channels on a link. Messages arrive in order, and none after `close`. */
export class Channel<Sent, Received> extends EventEmitter<ChannelEvents<Received>> {
  readonly number: number;
  readonly #link: Link<Sent, Received>;

  /** For `Link`. */
  constructor(number: number, link: Link<Sent, Received>) {
    super();
    this.number = number;
    this.#link = link;
  }

  /** @param transfer memory that is transferred instead of copied */
  post(message: Sent, transfer?: ArrayBuffer): void {
    this.#link.send(this, message, transfer);
  }

  close(): void {
    this.#link.closeChannel(this);
  }

  /** See `Link.isAnswering`. */
  get isAnswering(): boolean {
    return this.#link.isAnswering;
  }
}

/**
 * One end of the connection between the main thread and a worker. It carries many channels over one MessagePort. All messages of one
 * turn of the event loop cross as one, since waking the other thread costs more than the messages.
 */
export class Link<Sent, Received> {
  readonly #port: MessagePort;
  readonly #accept: ((channel: Channel<Sent, Received>) => void) | null;
  readonly #channels = new Map<number, Channel<Sent, Received>>();
  /** Numbers of channels, each followed by a message, or by null if the channel is closed. */
  #parcel: unknown[] = [];
  #transfer: ArrayBuffer[] = [];
  #lastNumber = 0;
  #isClosed = false;

  /** Whether the other thread has answered recently; set by its health check. */
  isAnswering = true;

  /**
   * @param accept called for each channel that the other end opens; null for the end that opens channels
   * @param closesWithPort false: when the other thread dies, the owner of the link calls `close` with the reason
   */
  constructor(
    port: MessagePort,
    accept: ((channel: Channel<Sent, Received>) => void) | null = null,
    closesWithPort = true,
  ) {
    this.#port = port;
    this.#accept = accept;
    port.on('message', (parcel: readonly unknown[]) => this.#receive(parcel));
    // The port closes when the other thread dies.
    if (closesWithPort) port.on('close', () => this.close());
  }

  /** Open channels. */
  get size(): number {
    return this.#channels.size;
  }

  /** Opens a channel; the other end accepts it with its first message. */
  open(): Channel<Sent, Received> {
    return this.#add(this.#lastNumber + 1);
  }

  /**
   * Closes every channel and the port. Messages of this turn of the event loop may not arrive.
   * @param reason passed to the `close` listeners of the channels
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
