import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { HttpError } from '../http/http-error.ts';
import type { Reply } from '../http/reply.ts';
import { type Match, type Route, Router } from '../http/router.ts';
import type { Found, Site as HttpSite } from '../http/site.ts';
import type { Api } from './api.ts';

interface ApiRoute extends Route {
  readonly api: Api | null;
}

/** All routes of all dialects. Where several have the same route, the headers of the request decide. */
export class Site implements HttpSite {
  readonly #native: Api;
  readonly #others: readonly Api[];
  /** The dialect of all requests; null: each request is in the dialect that claims it. */
  readonly #only: Api | null;
  readonly #router: Router<ApiRoute>;

  /**
   * @param native has the requests that no other dialect claims
   * @param others are asked in this order
   * @param only see `#only`
   * @param operations routes of no dialect
   */
  constructor(native: Api, others: readonly Api[], only: Api | null, operations: readonly Route[]) {
    this.#native = native;
    this.#others = others;
    this.#only = only;
    this.#router = new Router([
      ...operations.map((route) => withApi(route, null)),
      ...[native, ...others].flatMap((api) => api.routes.map((route) => withApi(route, api))),
    ]);
  }

  match(method: string, target: string, headers: IncomingHttpHeaders): Found {
    const match: Match<ApiRoute> = this.#router.match(method, target);
    if (match.type !== 'found') return match;
    const { routes, params, search } = match;
    const [first] = routes;
    if (first.api === null) return { type: 'found', route: first, params, search };
    const api = this.#apiOf(headers);
    const route = routes.find((candidate) => candidate.api === api) ?? first;
    // Routes of the native dialect are there in any case.
    if (this.#only === this.#native && route.api !== this.#native) return { type: 'not found' };
    return { type: 'found', route, params, search };
  }

  refusalOf({ headers }: IncomingMessage, error: HttpError): Reply | null {
    return this.#apiOf(headers).refusalOf(error);
  }

  #apiOf(headers: IncomingHttpHeaders): Api {
    if (this.#only !== null) return this.#only;
    for (const api of this.#others) if (api.claims(headers)) return api;
    return this.#native;
  }
}

/** All of them of one shape, which keeps the calls of `handle` fast. */
function withApi({ methods, path, receivesAhead, handle }: Route, api: Api | null): ApiRoute {
  return { methods, path, handle, api, ...(receivesAhead === undefined ? {} : { receivesAhead }) };
}
