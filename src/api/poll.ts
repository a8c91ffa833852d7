import type { Engine } from '../engine/engine.ts';
import type { Answer } from '../http/answer.ts';
import type { Page, PageReader } from '../query/pages.ts';
import type { Query } from '../query/query.ts';

/** How the first answer about a query differs from the others: it tells the client the query's id. */
export type AnsweredMethod = 'POST' | 'GET';

/** Implemented by `AnswerWriter`. */
interface PageWriter {
  writeReadyPage(query: Query, page: Page, acceptsGzip: boolean, response: Answer, isPosted: boolean): void;
}

const abandoned = 'was abandoned: its client went away before the first answer';

/**
 * A request that waits for a page. Tens of thousands may wait at once, so this is all that is kept of the way to it: no promise
 * and no async function waits with it.
 */
export class Poll implements PageReader {
  readonly #writer: PageWriter;
  readonly #query: Query;
  readonly #response: Answer;
  readonly #acceptsGzip: boolean;
  readonly #method: AnsweredMethod;

  constructor(writer: PageWriter, query: Query, response: Answer, acceptsGzip: boolean, method: AnsweredMethod) {
    this.#writer = writer;
    this.#query = query;
    this.#response = response;
    this.#acceptsGzip = acceptsGzip;
    this.#method = method;
  }

  /** Keeps the query until the answer has left, or the client. */
  begin(engine: Engine): void {
    const end = (): void => {
      this.#response.off('close', end);
      this.#end(engine);
    };
    engine.hold(this.#query);
    this.#response.on('close', end);
  }

  #end(engine: Engine): void {
    const query = this.#query;
    query.pages.leave(this);
    engine.release(query);
    // Only the client of the first request can know the query's id: if it goes before the answer, the query goes too.
    const isFirst = this.#method === 'POST' && query.identity.hasIdempotencyKey !== true;
    if (isFirst && !this.#response.headersSent) engine.finish(query, abandoned);
    else if (!this.#response.writableFinished) engine.hungUp(query);
  }

  page(page: Page): void {
    this.#writer.writeReadyPage(this.#query, page, this.#acceptsGzip, this.#response, this.#method === 'POST');
  }

  noPage(error: unknown): void {
    this.#response.fail(error);
  }
}
