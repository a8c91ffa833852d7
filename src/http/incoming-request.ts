import { IncomingMessage, type ServerOptions } from 'node:http';

/** Shorter chunks of a body are joined to pieces of the other size. */
const shortBytesMax = 1024;
const joinedBytes = 16 * 1024;
/** Short chunks of one request after which other connections have their turn. */
const chunksOfTurnMax = 1_000;

/** Short chunks that wait to be handed on as one piece. */
interface ShortChunks {
  readonly bytes: Buffer;
  length: number;
  /** Those of this turn of the event loop. */
  ofTurn: number;
  /** Something is to be done at the end of this turn. */
  isDue: boolean;
  /** Nothing more is read of the connection in this turn. */
  isResting: boolean;
  /** The reader of the body has asked for more meanwhile. */
  isWanted: boolean;
}

/**
 * A request whose chunked body comes in pieces of some size. Node makes a buffer for each chunk, which takes about 1 KiB however
 * short the chunk is, and keeps thousands of them for a reader that is not quick, or has not begun because the database is
 * still asked about its credentials. It also reads up to 2 MiB of a connection in one turn of the event loop, which may be 350,000
 * chunks.
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
    // Node runs what waits for a promise or for the next tick after every single chunk.
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

  /** @returns whether the body's reader keeps up */
  #flush(short: ShortChunks): boolean {
    const { bytes, length } = short;
    if (length === 0) return true;
    short.length = 0;
    return super.push(Buffer.from(bytes.subarray(0, length)));
  }
}

/** For `createServer`, which makes its requests of it. */
export const requestClass = IncomingRequest as unknown as NonNullable<ServerOptions['IncomingMessage']>;
