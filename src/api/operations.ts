import type { ServerResponse } from 'node:http';
import type { Engine } from '../engine/engine.ts';
import { httpErrors } from '../http/http-error.ts';
import { replyText } from '../http/reply.ts';
import type { Route } from '../http/router.ts';

export interface OperationsParts {
  readonly engine: Engine;
  /** Counts and levels, in the text format of Prometheus. */
  readonly readMetrics: () => Promise<{ readonly contentType: string; readonly text: string }>;
  /** Resolves to null when the service can take statements, else to the reason why not. */
  readonly whyNotReady: () => Promise<string | null>;
}

/** Routes for operators: whether the process lives, whether it can take statements, and its metrics. */
export function operationsRoutes(parts: OperationsParts): readonly Route[] {
  const methods = ['GET', 'HEAD'];
  return [
    { methods, path: '/health', handle: ({ response }) => replyText(response, 200, 'ok') },
    { methods, path: '/ready', handle: ({ response }) => ready(parts, response) },
    { methods, path: '/metrics', handle: ({ response }) => metrics(parts, response) },
  ];
}

async function ready({ engine, whyNotReady }: OperationsParts, response: ServerResponse): Promise<void> {
  const reason = engine.isDraining ? 'the server is stopping' : await whyNotReady();
  if (reason !== null) throw httpErrors.unavailable(reason);
  replyText(response, 200, 'ready');
}

async function metrics({ readMetrics }: OperationsParts, response: ServerResponse): Promise<void> {
  const { contentType, text } = await readMetrics();
  replyText(response, 200, text, { 'Content-Type': contentType });
}
