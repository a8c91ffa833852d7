import type { Socket } from 'node:net';
import type { Engine } from '../engine/engine.ts';
import type { Answer } from '../http/answer.ts';
import { GzipMember } from '../http/gzip.ts';
import { HttpError } from '../http/http-error.ts';
import { commonHeaders, varyingByEncoding } from '../http/reply.ts';
import type { Page, PageReader } from '../query/pages.ts';
import type { Query } from '../query/query.ts';
import type { Rows } from '../query/ring.ts';
import { RequestAbortedError } from '../refusal-error.ts';
import type { Failure } from '../wire/failures.ts';
import type { Deflated } from '../wire/statement.ts';
import { separatorOf, type WholeAnswer } from './whole-format.ts';

/**
 * Has the connection end by a reset. `resetAndDestroy` would end it properly first. Node has had this member since 18.3; TLS has no
 * reset, and its clients notice that the end is missing.
 */
function resetOnDestroy(socket: Socket & { resetAndClosing?: boolean; encrypted?: boolean }): void {
  if (socket.encrypted !== true) socket.resetAndClosing = true;
}

/** Trailers of a whole result (docs/api.md, "The whole result in one answer"). */
const rowsTrailer = 'Sluice-Rows';
const errorTrailer = 'Sluice-Error';

const leftBehind = 'was abandoned: its client went away before the end of its result';

/**
 * Writes the whole result of a query as the body of one answer, page by page as the client reads. The query is removed with the
 * answer. A statement that fails before its first row gets a status of its own; one that fails later cuts the body off, so that no
 * client takes it for complete.
 *
 *     waiting ──▶ streaming ──▶ ended
 *        │            │           ▲
 *        └────────────┴───────────┘   the client went away, or the statement failed
 */
export class ResultStream implements PageReader {
  readonly #engine: Engine;
  readonly #query: Query;
  readonly #response: Answer;
  readonly #whole: WholeAnswer;
  readonly #separator: string;
  readonly #gzip: GzipMember | null;
  #phase: 'waiting' | 'streaming' | 'ended' = 'waiting';
  #number = 0;
  /** The rows that the client has not taken yet. */
  #sending: Rows | null = null;
  #rows = 0;

  constructor(engine: Engine, query: Query, response: Answer, whole: WholeAnswer, asGzip: boolean) {
    this.#engine = engine;
    this.#query = query;
    this.#response = response;
    this.#whole = whole;
    this.#separator = separatorOf(whole.format);
    this.#gzip = asGzip ? new GzipMember() : null;
  }

  /** @throws RequestAbortedError */
  begin(): void {
    if (this.#response.destroyed) {
      this.#engine.finish(this.#query, leftBehind);
      throw new RequestAbortedError('the client went away before its statement was answered');
    }
    this.#engine.hold(this.#query);
    this.#response.once('close', () => this.#close());
    this.#readNext();
  }

  page(page: Page): void {
    if (this.#phase === 'ended') return;
    try {
      this.#take(page);
    } catch (error) {
      this.noPage(error);
    }
  }

  /** An answer that has begun is cut off. */
  noPage(error: unknown): void {
    this.#phase = 'ended';
    this.#engine.finish(this.#query, error instanceof HttpError ? 'has no form in the format' : undefined);
    this.#response.fail(error);
  }

  /** HTTP/1.0 has neither chunks nor trailers. */
  get #hasTrailers(): boolean {
    return this.#response.req.httpVersion !== '1.0';
  }

  #readNext(): void {
    this.#response.pauseIdleTime();
    if (!this.#query.readPage(this.#number, this)) this.#abort();
  }

  #take(page: Page): void {
    const { state, rows, next } = page;
    if (state.name === 'Failed') {
      if (this.#phase === 'waiting') this.#refuse(state.failure);
      else this.#abort();
      return;
    }
    const isLast = next === null;
    if (rows.count === 0 && !isLast) {
      this.#readNext();
      return;
    }
    if (this.#phase === 'waiting') this.#start(page);
    const isDrained = this.#writeRows(rows);
    if (isLast) {
      this.#end(page);
      return;
    }
    this.#number = next;
    if (isDrained) {
      this.#readNext();
      return;
    }
    this.#response.resumeIdleTime();
    this.#query.rowBuffer.sending(rows);
    this.#sending = rows;
    this.#response.once('drain', () => {
      this.#sent();
      if (this.#phase === 'streaming') this.#readNext();
    });
  }

  #sent(): void {
    if (this.#sending !== null) this.#query.rowBuffer.sent(this.#sending);
    this.#sending = null;
  }

  #start({ columns }: Page): void {
    const head = this.#whole.format.head(columns);
    this.#phase = 'streaming';
    this.#response.writeHead(200, {
      'Content-Type': this.#whole.format.contentType,
      ...(this.#hasTrailers ? { Trailer: `${rowsTrailer}, ${errorTrailer}` } : {}),
      ...(this.#gzip === null ? {} : { 'Content-Encoding': 'gzip', Vary: varyingByEncoding(this.#response) }),
      ...commonHeaders,
    });
    if (this.#gzip !== null) this.#response.write(this.#gzip.begin());
    if (head.length > 0) this.#write(head);
  }

  /** @returns whether the client has taken all of it */
  #writeRows({ pieces, count }: Rows): boolean {
    let isDrained = true;
    let needsSeparator = this.#rows > 0 && this.#separator !== '';
    for (const piece of pieces) {
      if (needsSeparator) this.#write(this.#separator);
      isDrained = this.#write(piece);
      needsSeparator = this.#separator !== '';
    }
    this.#rows += count;
    return isDrained;
  }

  #write(part: string | Uint8Array | Deflated): boolean {
    if (this.#gzip === null) return this.#response.write(part as string | Uint8Array);
    let isDrained = true;
    for (const piece of this.#gzip.add(part)) isDrained = this.#response.write(piece);
    return isDrained;
  }

  #end(last: Page): void {
    const tail = this.#whole.format.tail(last, this.#rows);
    if (tail.length > 0) this.#write(tail);
    if (this.#gzip !== null) this.#response.write(this.#gzip.end());
    if (this.#hasTrailers) this.#response.addTrailers({ [rowsTrailer]: String(this.#rows) });
    this.#response.resumeIdleTime();
    this.#response.end();
  }

  #refuse(failure: Failure): void {
    this.#phase = 'ended';
    const body = Buffer.from(`${this.#whole.writeFailure(failure)}\n`);
    this.#response.writeHead(failure.retryable ? 503 : 400, {
      'Content-Type': 'application/json',
      'Content-Length': body.length,
      ...commonHeaders,
    });
    this.#response.end(body);
  }

  /** Leaves out the last chunk. A client of HTTP/1.0, for whom the body ends with the connection, gets a reset. */
  #abort(): void {
    this.#phase = 'ended';
    if (!this.#hasTrailers) resetOnDestroy(this.#response.req.socket);
    this.#response.destroy();
  }

  #close(): void {
    this.#sent();
    this.#engine.release(this.#query);
    this.#engine.finish(this.#query, this.#response.writableFinished ? undefined : leftBehind);
    this.#phase = 'ended';
  }
}
