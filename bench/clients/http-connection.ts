import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { authorization } from '../database.ts';

export interface Reply {
  /** Of the whole body. */
  readonly bytes: number;
  /** The end of the body, where the protocol has its URIs; all of it if it is short. */
  readonly tail: string;
}

interface Exchange {
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: Error) => void;
}

const tailBytesMax = 4_096;

/** Every connection reads into the same memory, as what was read is done with before the next read. */
const readBuffer = Buffer.allocUnsafeSlow(256 * 1024);

/**
 * One keep-alive connection whose bodies are counted and thrown away as they come. The client shares the machine with
 * what is measured, and this one takes a quarter of the time that node:http takes. Knows bodies with a Content-Length only.
 */
export class HttpConnection {
  readonly #socket: Socket;
  readonly #host: string;
  #exchange: Exchange | null = null;
  #head = '';
  #status = 0;
  /** Bytes of the body that are still to come; null while the head is. */
  #toCome: number | null = null;
  #bytes = 0;
  #tail: Buffer[] = [];

  private constructor(url: string) {
    const { hostname, port, host } = new URL(url);
    this.#host = host;
    this.#socket = connect({
      host: hostname,
      port: Number(port),
      noDelay: true,
      onread: {
        buffer: readBuffer,
        callback: (length, buffer) => {
          this.#read(buffer as Buffer, length);
          return true;
        },
      },
    });
    this.#socket.on('error', (error) => this.#fail(error));
    this.#socket.on('close', () => this.#fail(new Error('the server closed the connection')));
  }

  static async open(url: string): Promise<HttpConnection> {
    const connection = new HttpConnection(url);
    await once(connection.#socket, 'connect');
    return connection;
  }

  close(): void {
    this.#exchange = null;
    this.#socket.destroy();
  }

  get(path: string): Promise<Reply> {
    return this.#send(`GET ${path} HTTP/1.1\r\n`, '');
  }

  post(path: string, body: object): Promise<Reply> {
    const text = JSON.stringify(body);
    const type = `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n`;
    return this.#send(`POST ${path} HTTP/1.1\r\n${type}`, text);
  }

  #send(head: string, body: string): Promise<Reply> {
    return new Promise((resolve, reject) => {
      if (this.#socket.destroyed) throw new Error('the server has closed the connection');
      this.#exchange = { resolve, reject };
      this.#head = '';
      this.#toCome = null;
      this.#tail = [];
      this.#socket.write(`${head}Host: ${this.#host}\r\nAuthorization: ${authorization()}\r\n\r\n${body}`);
    });
  }

  #read(buffer: Buffer, length: number): void {
    let start = 0;
    if (this.#toCome === null) {
      start = this.#readHead(buffer, length);
      if (this.#toCome === null) return;
    }
    const toComeAfter = this.#toCome - (length - start);
    if (toComeAfter < tailBytesMax) {
      const tailStart = Math.max(start, length - (tailBytesMax - toComeAfter));
      this.#tail.push(Buffer.from(buffer.subarray(tailStart, length)));
    }
    this.#toCome = toComeAfter;
    if (toComeAfter === 0) this.#end();
  }

  /** @returns where the body begins */
  #readHead(buffer: Buffer, length: number): number {
    const before = this.#head.length;
    this.#head += buffer.toString('latin1', 0, length);
    const end = this.#head.indexOf('\r\n\r\n');
    if (end < 0) return length;
    this.#status = Number(this.#head.slice(9, 12));
    this.#bytes = Number(/\r\ncontent-length: (\d+)/i.exec(this.#head)?.[1] ?? Number.NaN);
    if (Number.isNaN(this.#bytes))
      this.#fail(new Error(`an answer without a Content-Length: ${this.#head.slice(0, end)}`));
    this.#toCome = this.#bytes;
    return end + 4 - before;
  }

  #end(): void {
    const exchange = this.#exchange;
    const tail = Buffer.concat(this.#tail).toString();
    this.#exchange = null;
    if (this.#status === 200) exchange?.resolve({ bytes: this.#bytes, tail });
    else exchange?.reject(new Error(`status ${this.#status}: ${tail}`));
  }

  #fail(error: Error): void {
    this.#exchange?.reject(error);
    this.#exchange = null;
  }
}
