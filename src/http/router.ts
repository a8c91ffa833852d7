/** What a request is for. `id` and `page` come from the path, `isFinal` from the query string of a kill. */
export type Route =
  | { readonly name: 'query' }
  | { readonly name: 'stats'; readonly id: string }
  | { readonly name: 'page'; readonly id: string; readonly page: number }
  | { readonly name: 'kill'; readonly id: string; readonly isFinal: boolean }
  | { readonly name: 'health' }
  | { readonly name: 'ready' };

export type Match =
  | { readonly type: 'route'; readonly route: Route }
  | { readonly type: 'malformed'; readonly reason: string }
  | { readonly type: 'not found' }
  | { readonly type: 'method not allowed'; readonly allow: readonly string[] };

/** HEAD goes with GET only where GET changes nothing: to ask for a page hands it out. */
const methods: Readonly<Record<Route['name'], readonly string[]>> = {
  query: ['POST'],
  stats: ['GET', 'HEAD'],
  page: ['GET'],
  kill: ['GET', 'POST'],
  health: ['GET', 'HEAD'],
  ready: ['GET', 'HEAD'],
};

const notFound: Match = { type: 'not found' };
const pageNumber = /^(?:0|[1-9][0-9]{0,14})$/;

/**
 * @param target the request target as sent: a path or a URL, perhaps with a query string
 */
export function match(method: string, target: string): Match {
  const origin = withoutAuthority(target);
  const mark = origin.indexOf('?');
  const path = mark < 0 ? origin : origin.slice(0, mark);
  if (!path.startsWith('/')) return { type: 'malformed', reason: 'the request target is not a path' };
  const decoded = decode(path);
  if (decoded === null) return { type: 'malformed', reason: 'the path is not valid percent-encoded text' };
  const route = find(
    decoded.split('/').filter((segment) => segment !== ''),
    mark < 0 ? '' : origin.slice(mark + 1),
  );
  if (route === null) return notFound;
  if ('type' in route) return route;
  const allow = methods[route.name];
  return allow.includes(method) ? { type: 'route', route } : { type: 'method not allowed', allow };
}

/** A client may send a whole URL, as to a proxy; which host it names is of no interest (RFC 9112, section 3.2.2). */
function withoutAuthority(target: string): string {
  const authority = /^https?:\/\/[^/?#]+/i.exec(target)?.[0];
  if (authority === undefined) return target;
  return target.length === authority.length ? '/' : target.slice(authority.length);
}

/** Empty segments have been left out, which folds double slashes and trailing ones. */
function find(segments: readonly string[], search: string): Route | Match | null {
  const [first, second, id, verb, number] = segments;
  if (segments.length === 1 && first === 'health') return { name: 'health' };
  if (segments.length === 1 && first === 'ready') return { name: 'ready' };
  if (first !== 'v1' || second !== 'query') return null;
  if (id === undefined) return { name: 'query' };
  if (verb === undefined) return { name: 'stats', id };
  if (verb === 'page' && segments.length === 5 && pageNumber.test(number as string)) {
    return { name: 'page', id, page: Number(number) };
  }
  if (verb === 'kill' && segments.length === 4) {
    const remove = new URLSearchParams(search).get('delete') ?? 'false';
    if (remove === 'true' || remove === 'false') return { name: 'kill', id, isFinal: remove === 'true' };
    return { type: 'malformed', reason: '"delete" must be true or false' };
  }
  return null;
}

/** null if the path has a bad percent code or a control character. */
function decode(path: string): string | null {
  try {
    const decoded = path.includes('%') ? decodeURIComponent(path) : path;
    // biome-ignore lint/suspicious/noControlCharactersInRegex: it is these that are refused.
    return /[\x00-\x1f\x7f]/.test(decoded) ? null : decoded;
  } catch {
    return null;
  }
}
