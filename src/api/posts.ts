import type { IncomingMessage } from 'node:http';
import type { Engine, Submission } from '../engine/engine.ts';
import { type Answer, originOf, turnOf } from '../http/answer.ts';
import { readJsonBytes } from '../http/body.ts';
import { acceptsGzip } from '../http/gzip.ts';
import { httpErrors } from '../http/http-error.ts';
import type { Exchange } from '../http/router.ts';
import type { Query } from '../query/query.ts';
import type { RequestMemory } from '../query/request-memory.ts';
import type { Account } from '../session/accounts.ts';
import type { AnswerWriter } from './answer-writer.ts';
import type { Authenticator } from './authenticator.ts';
import type { BodyFormat, ParsedBody } from './body.ts';
import type { BodyParser } from './body-parser.ts';
import { InvalidRequestError } from './invalid-request.ts';
import { ResultStream } from './result-stream.ts';
import type { WholeAnswer, WholeFormat } from './whole-format.ts';

/** How a dialect posts statements. */
export interface PostDialect<Body extends ParsedBody> {
  readonly name: string;
  /** The header, in lower case, by which a client says that a POST repeats an earlier one. */
  readonly keyHeader: string;
  readonly bodies: BodyFormat<Body>;
  /**
   * @param key of the POST; null: it has none
   * @throws InvalidRequestError
   */
  submissionOf(body: Body, request: IncomingMessage, user: string, key: string | null): Submission;
}

/** The longest key of a POST; a longer one is refused. */
const keyCharactersMax = 255;

/** Takes the POSTs of all dialects: reads and parses the body, submits the statement, and answers with the first page. */
export class Posts {
  readonly #engine: Engine;
  readonly #authenticator: Authenticator;
  readonly #answers: AnswerWriter;
  readonly #bodyParser: BodyParser;
  readonly #requestMemory: RequestMemory;
  readonly #bodyBytesMax: number;

  constructor(
    engine: Engine,
    authenticator: Authenticator,
    answers: AnswerWriter,
    bodyParser: BodyParser,
    requestMemory: RequestMemory,
    bodyBytesMax: number,
  ) {
    this.#engine = engine;
    this.#authenticator = authenticator;
    this.#answers = answers;
    this.#bodyParser = bodyParser;
    this.#requestMemory = requestMemory;
    this.#bodyBytesMax = bodyBytesMax;
  }

  /** @throws HttpError, RefusalError, RequestAbortedError */
  async post<Body extends ParsedBody>(
    dialect: PostDialect<Body>,
    { request, response }: Exchange,
    whole: WholeAnswer | null = null,
  ): Promise<void> {
    const key = keyOf(request, dialect.keyHeader);
    if (whole !== null && key !== null) {
      throw httpErrors.badRequest(
        `a whole result in one answer cannot be repeated: leave out the header ${dialect.keyHeader}, or read it by pages`,
      );
    }
    // A repeated POST is answered with the query that it has started.
    if (key === null) this.#engine.checkAccepting();
    // Authenticate before buffering the body.
    const account = await this.#authenticator.authenticate(request);
    const isGzip = acceptsGzip(request.headers['accept-encoding']);
    const query = await this.#submit(dialect, key, account, isGzip, whole?.format ?? null, request, response);
    if (whole !== null) {
      new ResultStream(this.#engine, query, response, whole, isGzip).begin();
      return;
    }
    this.#answers.writePage(query, 0, isGzip, response, 'POST');
  }

  /** A function of its own, so that only the query holds anything of the body after it. */
  async #submit<Body extends ParsedBody>(
    dialect: PostDialect<Body>,
    key: string | null,
    account: Account,
    isGzip: boolean,
    whole: WholeFormat | null,
    request: IncomingMessage,
    response: Answer,
  ): Promise<Query> {
    const { user } = account;
    const reservation = this.#requestMemory.reserve(user, 0);
    try {
      const bytes = await readJsonBytes(request, this.#bodyBytesMax, reservation);
      if (response.turn !== null) {
        reservation.resize(Math.max(reservation.bytes, bytes.length));
        // Clients rely on the order of what they send on one connection (RFC 9112, section 9.3.2).
        await turnOf(response);
      }
      response.pauseIdleTime();
      // A client that gives a key comes back for an answer that it has lost.
      const isAbandoned = (): boolean => key === null && response.destroyed;
      const wantsDigest = key !== null;
      const parsing = this.#bodyParser.parse({ user, format: dialect.bodies, bytes, wantsDigest, isAbandoned });
      const { body, digest } = parsing instanceof Promise ? await parsing : parsing;
      return await this.#engine.submit(
        () => streamed(submissionOf(dialect, body, request, user, key), whole),
        account,
        {
          key: key === null ? null : { scope: dialect.name, text: key, digest: digest ?? '' },
          acceptsGzip: isGzip,
          origin: originOf(request, response),
          isAbandoned,
        },
      );
    } finally {
      reservation.release();
    }
  }
}

/**
 * The submission, for a client that reads the whole result in one answer.
 * @throws HttpError 400
 */
function streamed(submission: Submission, whole: WholeFormat | null): Submission {
  if (whole === null) return submission;
  const { format: given, ...request } = submission.request;
  if (request.keepSecs !== undefined) {
    throw httpErrors.badRequest(
      'a result that is kept has files of every format: leave out the format, and ask for them',
    );
  }
  const format = given === 'json, large integers as strings' ? whole.rowsWithStrings : whole.rows;
  return { ...submission, listener: null, request: { ...request, format, isStreamed: true } };
}

/** @throws HttpError 400 */
function submissionOf<Body extends ParsedBody>(
  dialect: PostDialect<Body>,
  body: Body,
  request: IncomingMessage,
  user: string,
  key: string | null,
): Submission {
  try {
    return dialect.submissionOf(body, request, user, key);
  } catch (error) {
    if (error instanceof InvalidRequestError) throw httpErrors.badRequest(error.message);
    throw error;
  }
}

/** @throws HttpError 400 */
function keyOf({ headers }: IncomingMessage, name: string): string | null {
  const key = headers[name];
  if (key === undefined || key === '') return null;
  if (typeof key !== 'string' || key.length > keyCharactersMax) {
    throw httpErrors.badRequest(`the header ${name} must be one of at most ${keyCharactersMax} characters`);
  }
  return key;
}
