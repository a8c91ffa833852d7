import type { IncomingMessage } from 'node:http';
import type { Answer } from './answer.ts';

/** One request with its response, and the parameters in its target. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: Answer;
  /** The values of the parameters in the route's path, in order, percent-decoded. */
  readonly params: readonly string[];
  /** The query string without its question mark; empty if there is none. */
  readonly search: string;
}

/** An endpoint. */
export interface Route {
  /** HEAD stands beside GET only where GET has no effect. GET of a page hands out its rows. */
  readonly methods: readonly string[];
  /**
   * Segments after slashes. `:name` matches any segment, and `#name` a whole number. A literal segment is preferred to a
   * parameter at the same position, without backtracking.
   */
  readonly path: string;
  /** Its body may be large, and is received before the requests in front of it on the connection are answered. */
  readonly receivesAhead?: true;
  /**
   * Answers the request, now or later: if it waits, `Answer.fail` is told of what fails meanwhile.
   * @throws HttpError or RefusalError for an answer other than 200
   */
  handle(exchange: Exchange): void | Promise<void>;
}

export type Match<R extends Route> =
  /** All routes of that method and path, in the order of the table. */
  | {
      readonly type: 'found';
      readonly routes: readonly [R, ...R[]];
      readonly params: readonly string[];
      readonly search: string;
    }
  | { readonly type: 'malformed'; readonly reason: string }
  | { readonly type: 'not found' }
  | { readonly type: 'method not allowed'; readonly allow: readonly string[] };

/** A node in the tree of paths. */
interface Node<R> {
  readonly literals: Map<string, Node<R>>;
  number: Node<R> | null;
  any: Node<R> | null;
  /** By method; empty if no route ends here. */
  readonly routes: Map<string, [R, ...R[]]>;
}

const slash = '/'.charCodeAt(0);
/** At most fifteen digits, which a double represents exactly. */
const wholeNumber = /^(?:0|[1-9][0-9]{0,14})$/;

/** Finds the routes of a request. The table of routes is compiled once, into a tree with a level for each segment of a path. */
export class Router<R extends Route> {
  readonly #root: Node<R> = newNode();

  constructor(routes: readonly R[]) {
    for (const route of routes) this.#add(route);
  }

  #add(route: R): void {
    let node = this.#root;
    for (const segment of route.path.split('/').slice(1)) node = childFor(node, segment);
    for (const method of route.methods) {
      const others = node.routes.get(method);
      if (others === undefined) node.routes.set(method, [route]);
      else others.push(route);
    }
  }

  /** @param target the request target as sent: a path or a URL, with or without a query string */
  match(method: string, target: string): Match<R> {
    const origin = withoutAuthority(target);
    const mark = origin.indexOf('?');
    const path = mark < 0 ? origin : origin.slice(0, mark);
    if (!path.startsWith('/')) return { type: 'malformed', reason: 'the request target is not a path' };
    const text = decode(path);
    if (text === null) return badEncoding;
    const params: string[] = [];
    let node: Node<R> | null = this.#root;
    let start = 0;
    for (let at = 0; at <= text.length; at++) {
      const code = at < text.length ? text.charCodeAt(at) : slash;
      if (code < 0x20 || code === 0x7f) return badEncoding;
      if (code !== slash) continue;
      // Empty segments, of double and trailing slashes, are ignored.
      if (at > start && node !== null) node = this.#step(node, text.slice(start, at), params);
      start = at + 1;
    }
    if (node === null || node.routes.size === 0) return notFound;
    const routes = node.routes.get(method);
    if (routes === undefined) return { type: 'method not allowed', allow: [...node.routes.keys()] };
    return { type: 'found', routes, params, search: mark < 0 ? '' : origin.slice(mark + 1) };
  }

  #step(node: Node<R>, segment: string, params: string[]): Node<R> | null {
    const literal = node.literals.get(segment);
    if (literal !== undefined) return literal;
    const next = node.number !== null && wholeNumber.test(segment) ? node.number : node.any;
    if (next !== null) params.push(segment);
    return next;
  }
}

const notFound = { type: 'not found' } as const;
const badEncoding = { type: 'malformed', reason: 'the path is not valid percent-encoded text' } as const;

function newNode<R>(): Node<R> {
  return { literals: new Map(), number: null, any: null, routes: new Map() };
}

function childFor<R>(node: Node<R>, segment: string): Node<R> {
  if (segment.startsWith('#')) {
    node.number ??= newNode();
    return node.number;
  }
  if (segment.startsWith(':')) {
    node.any ??= newNode();
    return node.any;
  }
  let child = node.literals.get(segment);
  if (child === undefined) {
    child = newNode();
    node.literals.set(segment, child);
  }
  return child;
}

/** A client may send an absolute URL, as to a proxy; its authority is ignored (RFC 9112, section 3.2.2). */
export function withoutAuthority(target: string): string {
  if (target.startsWith('/')) return target;
  const authority = /^https?:\/\/[^/?#]+/i.exec(target)?.[0];
  if (authority === undefined) return target;
  return target.length === authority.length ? '/' : target.slice(authority.length);
}

function decode(path: string): string | null {
  try {
    return path.includes('%') ? decodeURIComponent(path) : path;
  } catch {
    return null;
  }
}
