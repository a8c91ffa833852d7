import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { HttpError } from './http-error.ts';
import type { Reply } from './reply.ts';
import type { Match, Route } from './router.ts';

/** The route of a request, or why there is none. */
export type Found =
  | { readonly type: 'found'; readonly route: Route; readonly params: readonly string[]; readonly search: string }
  | Exclude<Match<Route>, { readonly type: 'found' }>;

/** The routes that an `HttpServer` serves. */
export interface Site {
  match(method: string, target: string, headers: IncomingHttpHeaders): Found;
  /** The body and headers of a refusal in the dialect of the request; null: plain text. */
  refusalOf(request: IncomingMessage, error: HttpError): Reply | null;
}
