import type { IncomingMessage, ServerResponse } from 'node:http';
import { Counts } from '../counts.ts';
import { defaultPerUserMax, mayTake, type SharedLimit } from '../share.ts';
import { addressOf } from './answer.ts';

/** About the memory of a request without a body that waits for its turn, beside the text of its head. */
const requestBytes = 8 * 1024;

/**
 * The memory of pipelined requests: those that were sent before the request in front of them on the connection was answered. It
 * is shared between the addresses of the clients, since a request is not authenticated before its turn.
 */
export class PipelinedMemory {
  readonly #limit: SharedLimit;
  #bytes = 0;
  readonly #bytesByAddress = new Counts();

  constructor(bytesMax: number) {
    this.#limit = { max: bytesMax, perUserMax: defaultPerUserMax(bytesMax) };
  }

  /**
   * Reserves the memory of a request until its response is closed.
   * @returns whether there is enough
   */
  reserve({ rawHeaders, url = '', socket }: IncomingMessage, response: ServerResponse): boolean {
    let bytes = requestBytes + url.length;
    for (const text of rawHeaders) bytes += text.length;
    const address = addressOf(socket);
    const reserved = this.#bytesByAddress.of(address);
    if (!mayTake(this.#limit, reserved, bytes, this.#limit.max - this.#bytes)) return false;
    this.#add(address, bytes);
    response.once('close', () => this.#add(address, -bytes));
    return true;
  }

  #add(address: string, bytes: number): void {
    this.#bytes += bytes;
    this.#bytesByAddress.add(address, bytes);
  }
}
