import { IncomingMessage, type ServerOptions } from 'node:http';

/** Chunks of a body that are shorter than this are joined to pieces of `joinedBytes`. */
const shortBytesMax = 1024;
const joinedBytes = 16 * 1024;
/** Short chunks of one request per turn of the event loop. Then other connections are read. */
const chunksOfTurnMax = 1_000;

/** Short chunks that are not pushed yet. */
interface ShortChunks {
  readonly bytes: Buffer;
  length: number;
  /** The chunks of this turn of the event loop. */
  ofTurn: number;
  /** `setImmediate` has been called for the end of this turn. */
  isDue: boolean;
  /** The connection is not read any more in this turn. */
  isResting: boolean;
  /** `_read` was called while `isResting`. */
  isWanted: boolean;
}

/**
 * A request that joins the short chunks of its body. Node makes a buffer for each chunk, which takes about 1 KiB however short
 * the chunk is, and keeps thousands of them while the body is not read, such as while the credentials are verified. It also
 * reads up to 2 MiB of a connection in one turn of the event loop, which can be 350,000 chunks.
 */
class IncomingRequest extends IncomingMessage {
  /** null: no short chunk has come. */
  #short: ShortChunks | null = null;
  #isRead = false;

  override push(chunk: Buffer | null, encoding?: BufferEncoding): boolean {
    if (chunk === null || chunk.length >= shortBytesMax || this.headers['transfer-encoding'] === undefined) {
      if (this.#short !== null) this.#flush(this.#short);
      return super.push(chunk, encoding);
    }
    this.#short ??= {
      bytes: Buffer.allocUnsafeSlow(joinedBytes),
      ...{ length: 0, ofTurn: 0, isDue: false, isResting: false, isWanted: false },
    };
    return this.#join(this.#short, chunk);
  }

  override _read(size: number): void {
    this.#isRead = true;
    const short = this.#short;
    if (short !== null && short.length > 0) this.#awaitEndOfTurn(short);
    if (short?.isResting === true) short.isWanted = true;
    else super._read(size);
  }

  #join(short: ShortChunks, chunk: Buffer): boolean {
    short.bytes.set(chunk, short.length);
    short.length += chunk.length;
    short.ofTurn++;
    // A promise or the next tick would be too early: Node runs both after every single chunk.
    this.#awaitEndOfTurn(short);
    if (short.ofTurn === chunksOfTurnMax) {
      short.isResting = true;
      this.socket.pause();
    }
    return short.length <= joinedBytes - shortBytesMax || this.#flush(short);
  }

  #awaitEndOfTurn(short: ShortChunks): void {
    if (short.isDue) return;
    short.isDue = true;
    setImmediate(() => {
      short.isDue = false;
      short.ofTurn = 0;
      if (this.#isRead && !this.#flush(short)) this.socket.pause();
      if (!short.isResting) return;
      short.isResting = false;
      if (short.isWanted && !this.complete) super._read(0);
      short.isWanted = false;
    });
  }

  /** @returns whether the buffer of the stream has room, as `push` does */
  #flush(short: ShortChunks): boolean {
    const { bytes, length } = short;
    if (length === 0) return true;
    short.length = 0;
    return super.push(Buffer.from(bytes.subarray(0, length)));
  }
}

/** `IncomingRequest`, in the type that `createServer` expects. */
export const requestClass = IncomingRequest as unknown as NonNullable<ServerOptions['IncomingMessage']>;
