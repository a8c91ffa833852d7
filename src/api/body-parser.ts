import type { Config } from '../config/config.ts';
import { Queue, type Waiter } from '../engine/queue.ts';
import type { Observe } from '../events.ts';
import { httpErrors } from '../http/http-error.ts';
import { RequestAbortedError } from '../refusal-error.ts';
import { openThreadPool, type ThreadPool } from '../thread-pool.ts';
import { type BodyFormat, digestOf, type ParsedBody } from './body.ts';
import { InvalidRequestError } from './invalid-request.ts';
import type { ParseResult, ParseTask } from './parser-thread.ts';
import type { RequestLimits } from './request.ts';

/** Large bodies wait in their own queue, with the same limits as the queue of statements. */
export type BodyParserOptions = Config['queue'] & { readonly limits: RequestLimits };

export interface BodyToParse<Body extends ParsedBody> {
  readonly user: string;
  readonly format: BodyFormat<Body>;
  readonly bytes: Buffer;
  readonly wantsDigest: boolean;
  /** Whether the client has disconnected. */
  readonly isAbandoned: () => boolean;
}

export interface Parsed<Body extends ParsedBody> {
  readonly body: Body;
  /** SHA-256 of the bytes, in Base64; null if `wantsDigest` is false. */
  readonly digest: string | null;
}

/** A larger body goes to the parser thread. At this size, the slowest body takes about 10 ms on the main thread. */
const mainThreadBytesMax = 64 * 1024;
const threadIdleMs = 30_000;
/** Parsed bodies are short-lived. Most of a body is one string, which is not in the young generation. */
const youngGenerationMb = 8;

/**
 * Parses the bodies of POSTs. Small ones are parsed at once. Large ones are parsed in a thread, one at a time and users in turn, so
 * that they delay neither the main thread nor a thread that streams rows. The thread is started for the first large body.
 */
export class BodyParser implements AsyncDisposable {
  readonly #options: BodyParserOptions;
  readonly #observe: Observe;
  readonly #queue: Queue;
  #pool: ThreadPool | null = null;
  #isBusy = false;

  constructor(options: BodyParserOptions, observe: Observe) {
    this.#options = options;
    this.#observe = observe;
    this.#queue = new Queue(options, () => !this.#isBusy);
  }

  /**
   * @returns a promise if the body is large
   * @throws HttpError 400, or 429 or 503 if too many large bodies wait; also by the promise, as is RequestAbortedError
   */
  parse<Body extends ParsedBody>(given: BodyToParse<Body>): Parsed<Body> | Promise<Parsed<Body>> {
    const { format, bytes, wantsDigest } = given;
    if (bytes.length > mainThreadBytesMax) return this.#parseInTurn(given);
    try {
      const body = format.parse(bytes, this.#options.limits);
      return { body, digest: wantsDigest ? digestOf(bytes) : null };
    } catch (error) {
      throw error instanceof InvalidRequestError ? httpErrors.badRequest(error.message) : error;
    }
  }

  #parseInTurn<Body extends ParsedBody>(given: BodyToParse<Body>): Promise<Parsed<Body>> {
    const admission = this.#queue.admit(given.user);
    if (admission === 'queue full')
      throw httpErrors.unavailable('too many large bodies wait to be parsed (--queue_max)');
    if (admission === 'user has too many') {
      throw httpErrors.tooManyRequests('too many large bodies of this user wait to be parsed (--queue_max)');
    }
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        user: given.user,
        needsConnection: false,
        start: () => {
          if (given.isAbandoned()) reject(new RequestAbortedError('the client went away before its body was parsed'));
          else this.#parseInThread(given).then(resolve, reject);
          return true;
        },
        giveUp: () => {
          const waitedSecs = this.#options.queueWaitMs / 1_000;
          reject(httpErrors.unavailable(`the body waited ${waitedSecs} s to be parsed (--queue_wait_secs)`));
        },
      };
      this.#queue.add(waiter);
      this.#queue.advance();
    });
  }

  async #parseInThread<Body extends ParsedBody>({
    format,
    bytes,
    wantsDigest,
  }: BodyToParse<Body>): Promise<Parsed<Body>> {
    this.#isBusy = true;
    try {
      this.#pool ??= this.#openPool();
      const task: ParseTask = { module: format.module, bytes, wantsDigest, limits: this.#options.limits };
      // Its memory is its own: a smaller one might lie in a pool of Node's.
      const transferList = [bytes.buffer as ArrayBuffer];
      const result = (await this.#pool.run(task, { transferList })) as ParseResult;
      if ('invalid' in result) throw httpErrors.badRequest(result.invalid);
      return result as Parsed<Body>;
    } finally {
      this.#isBusy = false;
      this.#queue.advance();
    }
  }

  #openPool(): ThreadPool {
    const file = new URL('./parser-thread.js', import.meta.url);
    const idleTimeout = threadIdleMs;
    return openThreadPool({ file, minThreads: 0, maxThreads: 1, idleTimeout, youngGenerationMb }, this.#observe);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#queue.close();
    await this.#pool?.destroy();
  }
}
