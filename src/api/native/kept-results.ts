import { extname } from 'node:path';
import type { Engine } from '../../engine/engine.ts';
import { fileMemoryBytes, replyFile } from '../../http/file.ts';
import { httpErrors } from '../../http/http-error.ts';
import { replyEmpty } from '../../http/reply.ts';
import type { Exchange, Route } from '../../http/router.ts';
import { shownId } from '../../ids.ts';
import type { Page, PageReader } from '../../query/pages.ts';
import type { Query } from '../../query/query.ts';
import type { RequestMemory } from '../../query/request-memory.ts';
import { RequestAbortedError } from '../../refusal-error.ts';
import type { KeptResult } from '../../results/kept-result.ts';
import type { AnswerWriter } from '../answer-writer.ts';
import type { ApiServices } from '../api.ts';
import type { Authenticator } from '../authenticator.ts';
import type { FileFormat } from '../whole-format.ts';
import { resultReply, resultsReply, rowsReplies } from './kept-response.ts';
import { fileFormatByName } from './whole-formats.ts';

interface Found {
  readonly query: Query;
  readonly result: KeptResult;
}

/** The routes of results that are kept on disk (docs/api.md, "Kept results"). */
export class KeptResultRoutes {
  readonly #engine: Engine;
  readonly #authenticator: Authenticator;
  readonly #answers: AnswerWriter;
  readonly #requestMemory: RequestMemory;
  readonly routes: readonly Route[] = [
    { methods: ['GET', 'HEAD'], path: '/v1/results', handle: (exchange) => this.#list(exchange) },
    { methods: ['GET', 'HEAD'], path: '/v1/result/:id', handle: (exchange) => this.#get(exchange) },
    { methods: ['DELETE'], path: '/v1/result/:id', handle: (exchange) => this.#delete(exchange) },
    { methods: ['GET'], path: '/v1/result/:id/rows', handle: (exchange) => this.#rows(exchange) },
  ];

  constructor({ engine, authenticator, answers, requestMemory }: ApiServices) {
    this.#engine = engine;
    this.#authenticator = authenticator;
    this.#answers = answers;
    this.#requestMemory = requestMemory;
  }

  async #list({ request, response }: Exchange): Promise<void> {
    const { user } = await this.#authenticator.authenticate(request);
    this.#answers.write(user, response, resultsReply(this.#engine.results.of(user)));
  }

  /** The result itself, or with the name of a format behind its id, a file of that format. */
  async #get(exchange: Exchange): Promise<void> {
    const { params, response, search } = exchange;
    const [name = ''] = params;
    const dot = name.lastIndexOf('.');
    const format = dot < 0 ? null : fileFormatByName(name.slice(dot + 1), search);
    const { query, result } = await this.#open(exchange, format === null ? name : name.slice(0, dot));
    if (format === null) {
      this.#answers.write(query.identity.owner, response, resultReply(query, result));
      return;
    }
    await this.#file(exchange, query, result, format);
  }

  async #delete(exchange: Exchange): Promise<void> {
    const [id = ''] = exchange.params;
    const { query } = await this.#find(exchange, id);
    this.#engine.finish(query);
    await this.#engine.results.removed(query);
    replyEmpty(exchange.response);
  }

  async #rows(exchange: Exchange): Promise<void> {
    const { params, response, search } = exchange;
    const [id = ''] = params;
    const { query, result } = await this.#open(exchange, id);
    const parameters = new URLSearchParams(search);
    const from = wholeNumberOf(parameters, 'from', 0);
    const count = wholeNumberOf(parameters, 'count', null);
    if (count === 0) throw httpErrors.badRequest('"count" must be a whole number from 1 on');
    if (!query.isRunning && from > result.rows) {
      throw httpErrors.badRequest(`result ${id} has ${result.rows} rows, and "from" is ${from}`);
    }
    if (response.destroyed) throw new RequestAbortedError('the client went away before its rows were looked for');
    const replies = rowsReplies(result, count);
    const reader: PageReader = {
      page: (page: Page) => this.#answers.writeReadyPage(query, page, false, response, false, replies),
      noPage: (error) => response.fail(error),
    };
    query.keeping?.pages.readRows(from, count, reader);
    response.once('close', () => query.pages.leave(reader));
  }

  async #file({ request, response }: Exchange, query: Query, result: KeptResult, format: FileFormat): Promise<void> {
    const { id } = query.identity;
    if (query.isRunning) {
      throw httpErrors.conflict(
        `the statement of result ${id} still runs: a file of it can be had when it has ended; its rows can be read already`,
      );
    }
    const snapshot = query.snapshot();
    if (snapshot.state.name === 'Failed') {
      throw httpErrors.conflict(`the statement of result ${id} failed: ${snapshot.state.failure.message}`);
    }
    const withStrings = result.manifest.pages.format === 'json, large integers as strings';
    const form = {
      format: withStrings ? format.rowsWithStrings : format.rows,
      content: format.content(snapshot, result.rows),
      columns: snapshot.columns,
    };
    if (response.destroyed) throw new RequestAbortedError('the client went away before its file was made');
    const client = new AbortController();
    response.once('close', () => client.abort());
    const path = await result.file(format.fileName, form, client.signal);
    if (response.destroyed) throw new RequestAbortedError('the client went away before its file was made');
    const reservation = this.#requestMemory.reserve(query.identity.owner, fileMemoryBytes);
    response.once('close', () => reservation.release());
    await replyFile(request, response, {
      path,
      etag: `"${id}-${format.fileName}"`,
      contentType: format.contentType,
      downloadName: `${id}${extname(format.fileName)}`,
    });
  }

  /** @throws HttpError 404, 410, 429, 503 */
  async #open(exchange: Exchange, id: string): Promise<Found> {
    const found = await this.#find(exchange, id);
    const { schema } = found.query;
    if (schema.isOnDisk) await schema.read();
    return found;
  }

  /** @throws HttpError 404 */
  async #find({ request }: Exchange, id: string): Promise<Found> {
    const { user } = await this.#authenticator.authenticate(request);
    const query = this.#engine.find(id, user);
    const result = query === undefined ? undefined : this.#engine.results.resultOf(query);
    if (query !== undefined && result !== undefined) return { query, result };
    const reason = this.#engine.tombstone(id, user)?.reason;
    throw httpErrors.notFound(
      reason === undefined ? `no kept result ${shownId(id, 'of that id')}` : `result ${id} ${reason}`,
    );
  }
}

/**
 * @param byDefault without the parameter
 * @throws HttpError 400
 */
function wholeNumberOf<Default>(parameters: URLSearchParams, name: string, byDefault: Default): number | Default {
  const given = parameters.get(name);
  if (given === null) return byDefault;
  if (!/^\d{1,15}$/.test(given)) throw httpErrors.badRequest(`"${name}" must be a whole number from 0 on`);
  return Number(given);
}
