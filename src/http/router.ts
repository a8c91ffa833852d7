/**
 * What a request is for. `id` and `page` come from the path, `isFinal` from the query string of a kill. From `final` on they
 * are of the Databend dialect alone.
 */
export type Route =
  | { readonly name: 'query' }
  | { readonly name: 'stats'; readonly id: string }
  | { readonly name: 'page'; readonly id: string; readonly page: number }
  | { readonly name: 'kill'; readonly id: string; readonly isFinal: boolean }
  | { readonly name: 'final'; readonly id: string }
  | { readonly name: 'session'; readonly id: string }
  | { readonly name: 'login' | 'logout' | 'refresh' | 'heartbeat' | 'verify' }
  | { readonly name: 'health' }
  | { readonly name: 'ready' }
  | { readonly name: 'metrics' };

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
  final: ['GET', 'POST'],
  session: ['DELETE'],
  login: ['POST'],
  logout: ['POST'],
  refresh: ['POST'],
  heartbeat: ['POST'],
  verify: ['GET', 'POST'],
  health: ['GET', 'HEAD'],
  ready: ['GET', 'HEAD'],
  metrics: ['GET', 'HEAD'],
};

const notFound: Match = { type: 'not found' };
const slash = '/'.charCodeAt(0);
const pageNumber = /^(?:0|[1-9][0-9]{0,14})$/;

/**
 * @param target the request target as sent: a path or a URL, perhaps with a query string
 */
export function match(method: string, target: string): Match {
  const origin = withoutAuthority(target);
  const mark = origin.indexOf('?');
  const path = mark < 0 ? origin : origin.slice(0, mark);
  if (!path.startsWith('/')) return { type: 'malformed', reason: 'the request target is not a path' };
  const segments = segmentsOf(path);
  if (segments === null) return { type: 'malformed', reason: 'the path is not valid percent-encoded text' };
  const route = find(segments, mark < 0 ? '' : origin.slice(mark + 1));
  if (route === null) return notFound;
  if ('type' in route) return route;
  const allow = methods[route.name];
  return allow.includes(method) ? { type: 'route', route } : { type: 'method not allowed', allow };
}

/** A client may send a whole URL, as to a proxy; which host it names is of no interest (RFC 9112, section 3.2.2). */
export function withoutAuthority(target: string): string {
  if (target.startsWith('/')) return target;
  const authority = /^https?:\/\/[^/?#]+/i.exec(target)?.[0];
  if (authority === undefined) return target;
  return target.length === authority.length ? '/' : target.slice(authority.length);
}

function find(segments: readonly string[], search: string): Route | Match | null {
  const [first, second, id, verb, number] = segments;
  if (segments.length === 1 && (first === 'health' || first === 'ready' || first === 'metrics')) return { name: first };
  if (first !== 'v1') return null;
  if (second === 'verify' && segments.length === 2) return { name: second };
  if (second === 'session' && segments.length === 3 && isSessionVerb(id)) return { name: id };
  if (second === 'session' && segments.length === 3) return { name: second, id: id as string };
  if (second !== 'query') return null;
  if (id === undefined) return { name: 'query' };
  if (verb === undefined) return { name: 'stats', id };
  if (verb === 'page' && segments.length === 5 && pageNumber.test(number as string)) {
    return { name: 'page', id, page: Number(number) };
  }
  if (verb === 'final' && segments.length === 4) return { name: 'final', id };
  if (verb === 'kill' && segments.length === 4) {
    const remove = new URLSearchParams(search).get('delete') ?? 'false';
    if (remove === 'true' || remove === 'false') return { name: 'kill', id, isFinal: remove === 'true' };
    return { type: 'malformed', reason: '"delete" must be true or false' };
  }
  return null;
}

function isSessionVerb(verb: string | undefined): verb is 'login' | 'logout' | 'refresh' | 'heartbeat' {
  return verb === 'login' || verb === 'logout' || verb === 'refresh' || verb === 'heartbeat';
}

/**
 * What stands between the slashes, percent codes decoded beforehand. Nothing between two of them is no segment, which
 * folds double slashes and trailing ones. null if the path has a bad percent code or a control character.
 */
function segmentsOf(path: string): string[] | null {
  const text = decode(path);
  if (text === null) return null;
  const segments: string[] = [];
  let start = 0;
  for (let at = 0; at <= text.length; at++) {
    const code = at < text.length ? text.charCodeAt(at) : slash;
    if (code < 0x20 || code === 0x7f) return null;
    if (code !== slash) continue;
    if (at > start) segments.push(text.slice(start, at));
    start = at + 1;
  }
  return segments;
}

function decode(path: string): string | null {
  try {
    return path.includes('%') ? decodeURIComponent(path) : path;
  } catch {
    return null;
  }
}
