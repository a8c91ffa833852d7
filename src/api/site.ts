import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { HttpError } from '../http/http-error.ts';
import type { Reply } from '../http/reply.ts';
import { type Match, type Route, Router } from '../http/router.ts';
import type { Found, Site as HttpSite } from '../http/server.ts';
import type { Api } from './api.ts';

interface ApiRoute extends Route {
  readonly api: Api | null;
}

/** All routes of all dialects. Where several have the same route, the headers of the request decide. */
export class Site implements HttpSite {
  readonly #apis: readonly Api[];
  /** For the requests that no dialect claims. */
  readonly #default: Api;
  readonly #router: Router<ApiRoute>;

  /**
   * @param apis the dialects that are told by their headers; they are asked in this order
   * @param byDefault the dialect of all other requests
   * @param operations routes of no dialect
   */
  constructor(apis: readonly Api[], byDefault: Api, operations: readonly Route[]) {
    this.#apis = apis;
    this.#default = byDefault;
    this.#router = new Router([
      ...operations.map((route) => withApi(route, null)),
      ...[...apis, byDefault].flatMap((api) => api.routes.map((route) => withApi(route, api))),
    ]);
  }

  match(method: string, target: string, headers: IncomingHttpHeaders): Found {
    const match: Match<ApiRoute> = this.#router.match(method, target);
    if (match.type !== 'found') return match;
    const { routes, params, search } = match;
    let [route] = routes;
    if (routes.length > 1) {
      const api = this.#apiOf(headers);
      route = routes.find((candidate) => candidate.api === api) ?? route;
    }
    return { type: 'found', route, params, search };
  }

  refusalOf({ headers }: IncomingMessage, error: HttpError): Reply | null {
    return this.#apiOf(headers).refusalOf(error);
  }

  #apiOf(headers: IncomingHttpHeaders): Api {
    for (const api of this.#apis) if (api.claims(headers)) return api;
    return this.#default;
  }
}

/** All of them of one shape, which keeps the calls of `handle` fast. */
function withApi({ methods, path, receivesAhead, handle }: Route, api: Api | null): ApiRoute {
  return { methods, path, handle, api, ...(receivesAhead === undefined ? {} : { receivesAhead }) };
}
