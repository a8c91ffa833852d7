import type { ServerResponse } from 'node:http';
import type { Engine } from '../engine/engine.ts';
import type { Answer } from '../http/answer.ts';
import { EncodedText } from '../http/encoded-text.ts';
import { isDeflated } from '../http/gzip.ts';
import { httpErrors } from '../http/http-error.ts';
import { type BodyParts, type Reply, reply, replyPage } from '../http/reply.ts';
import type { Page } from '../query/pages.ts';
import type { Query } from '../query/query.ts';
import type { RequestMemory, RequestReservation } from '../query/request-memory.ts';
import { isHolding } from '../query/ring.ts';
import { countedPageBytesMin } from '../query/row-buffer.ts';
import { RequestAbortedError } from '../refusal-error.ts';
import { type AnsweredMethod, Poll } from './poll.ts';
import type { QueryReplies } from './replies.ts';

/** A shorter text is not counted while it is sent. */
const countedTextBytesMin = 16 * 1024;

/** The memory of a text that answers share, and how many of them are on their way. */
interface SharedText {
  readonly reservation: RequestReservation;
  answers: number;
}

/** Writes answers, waits for the pages in them, and counts the memory that they hold until they have left. */
export class AnswerWriter {
  readonly #engine: Engine;
  readonly #requestMemory: RequestMemory;
  readonly #defaultReplies: QueryReplies;
  readonly #replies = new WeakMap<Query, QueryReplies>();
  readonly #sharedTexts = new Map<EncodedText, SharedText>();

  /** @param defaultReplies for queries of which `setReplies` says nothing */
  constructor(engine: Engine, requestMemory: RequestMemory, defaultReplies: QueryReplies) {
    this.#engine = engine;
    this.#requestMemory = requestMemory;
    this.#defaultReplies = defaultReplies;
  }

  setReplies(query: Query, replies: QueryReplies): void {
    this.#replies.set(query, replies);
  }

  repliesOf(query: Query): QueryReplies {
    return this.#replies.get(query) ?? this.#defaultReplies;
  }

  /**
   * Answers with a page, when it is ready.
   * @throws HttpError 404, RequestAbortedError
   */
  writePage(query: Query, number: number, acceptsGzip: boolean, response: Answer, method: AnsweredMethod): void {
    if (response.destroyed) {
      this.#engine.hungUp(query);
      throw new RequestAbortedError('the client went away before its page was looked for');
    }
    const poll = new Poll(this, query, response, acceptsGzip, method);
    if (!query.readPage(number, poll)) {
      throw httpErrors.notFound(`query ${query.identity.id} has no page ${number}, or has it no more`);
    }
    poll.begin(this.#engine);
  }

  /** For `Poll`: answers with a page that is ready. */
  writeReadyPage(
    query: Query,
    page: Page,
    acceptsGzip: boolean,
    response: Answer,
    isPosted: boolean,
    replies: Pick<QueryReplies, 'page'> = this.repliesOf(query),
  ): void {
    if (response.destroyed) return;
    try {
      if (query.isTooLate(page)) {
        throw httpErrors.notFound(`query ${query.identity.id} has no page ${page.number} any more`);
      }
      const { body, headers } = replies.page(query, page, isPosted);
      this.#countPage(query, page, body, acceptsGzip, response, isPosted);
      const inflating = replyPage(response, body, acceptsGzip, headers);
      inflating?.catch((error: unknown) => response.fail(error));
    } catch (error) {
      response.fail(error);
    }
  }

  /** @throws RequestMemoryError, RequestAbortedError */
  write(user: string, response: ServerResponse, answer: Reply): void {
    if (response.destroyed) throw new RequestAbortedError('the client went away before it was answered');
    this.#countText(user, answer.body, response);
    reply(response, answer);
  }

  /**
   * Counts what an answer holds until it has left: a client may be slow to read it, or not read it at all.
   * @param isPosted whether it answers a POST, whose statement has begun and which is therefore not refused
   * @throws RequestMemoryError
   */
  #countPage(
    query: Query,
    { rows }: Page,
    body: BodyParts,
    acceptsGzip: boolean,
    response: ServerResponse,
    isPosted: boolean,
  ): void {
    let otherBytes = !acceptsGzip && body.some(isDeflated) ? rows.bytes : 0;
    for (const part of body) if (part instanceof Uint8Array && !rows.pieces.includes(part)) otherBytes += part.length;
    this.#countText(query.identity.owner, body, response, otherBytes, isPosted);
    // Pages are sent in the turn in which they are given out, and `sending` keeps their rows from then on. If a piece had been
    // freed all the same, the client would miss rows and could not tell.
    if (rows.pieces.some(({ length }) => length === 0)) throw new Error('the rows of a page have been freed');
    if (!isHolding(rows, countedPageBytesMin)) return;
    query.rowBuffer.sending(rows);
    response.once('close', () => query.rowBuffer.sent(rows));
  }

  /**
   * Counts what an answer holds beside rows until it has left. It is much with thousands of columns, or with the session that
   * some clients carry.
   * @param otherBytes to be counted with it
   * @param mustAnswer whether it is counted even if it exceeds what the user may have
   * @throws RequestMemoryError
   */
  #countText(user: string, body: BodyParts, response: ServerResponse, otherBytes = 0, mustAnswer = false): void {
    let bytes = otherBytes;
    for (const part of body) {
      if (typeof part === 'string') bytes += part.length;
      else if (part instanceof EncodedText) this.#countSharedText(user, part, response, mustAnswer);
    }
    if (bytes < countedTextBytesMin) return;
    const reservation = this.#reserve(user, bytes, mustAnswer);
    response.once('close', () => reservation.release());
  }

  /** Counts a text once while answers with it are on their way. The query that it is of may be removed meanwhile. */
  #countSharedText(user: string, text: EncodedText, response: ServerResponse, mustAnswer: boolean): void {
    const shared = this.#sharedTexts.get(text) ?? {
      reservation: this.#reserve(user, text.length, mustAnswer),
      answers: 0,
    };
    shared.answers++;
    this.#sharedTexts.set(text, shared);
    response.once('close', () => {
      shared.answers--;
      if (shared.answers > 0) return;
      shared.reservation.release();
      this.#sharedTexts.delete(text);
    });
  }

  #reserve(user: string, bytes: number, mustAnswer: boolean): RequestReservation {
    const memory = this.#requestMemory;
    return mustAnswer ? memory.count(user, bytes) : memory.reserve(user, bytes);
  }
}
