import { hash } from 'node:crypto';
import type { Query } from '../query/query.ts';
import { ownedKey } from '../tombstones.ts';
import type { Queries } from './queries.ts';

interface Started {
  readonly user: string;
  readonly digest: string;
  /** Of the query, as soon as there is one. The query itself is not referenced. */
  id: string | Promise<string>;
}

export type Repeated =
  | { readonly type: 'query'; readonly query: Query }
  /** The key was used with another body. */
  | { readonly type: 'other body' }
  /** The query has been removed. */
  | { readonly type: 'removed'; readonly id: string; readonly reason: string };

/** Keys that are checked with each new one, so that no request pays for checking all of them. */
const checksPerKey = 4;

/**
 * A repeated idempotency key returns the query that the first POST started. A key is kept for as long as its query, or the
 * tombstone of its query.
 */
export class IdempotencyKeys {
  readonly #queries: Queries;
  readonly #started = new Map<string, Started>();
  /** Goes round the keys. It is kept, as a new iterator would first have to pass the entries deleted at the start of the map. */
  #checked = this.#started.entries();

  constructor(queries: Queries) {
    this.#queries = queries;
  }

  /**
   * @param scope the dialect; each has keys of its own
   * @param digest of the body; the same key must come with the same body
   * @param start creates the query; called for the first POST with the key, and again if that has failed
   * @throws the error of `start`, for all POSTs that wait for it
   */
  async once(scope: string, user: string, key: string, digest: string, start: () => Promise<Query>): Promise<Repeated> {
    const name = nameOf(scope, user, key);
    const before = this.#started.get(name);
    if (before === undefined) return { type: 'query', query: await this.#start(name, { digest, user }, start) };
    if (before.digest !== digest) return { type: 'other body' };
    const id = await before.id;
    const query = this.#queries.find(id, user);
    if (query !== undefined) return { type: 'query', query };
    return { type: 'removed', id, reason: this.#queries.whyRemoved(id, user) ?? 'has been removed' };
  }

  async #start(name: string, post: Pick<Started, 'digest' | 'user'>, start: () => Promise<Query>): Promise<Query> {
    this.#forgetSome();
    const starting = start();
    const started: Started = { ...post, id: starting.then((query) => query.identity.id) };
    this.#started.set(name, started);
    try {
      started.id = await started.id;
      return await starting;
    } catch (error) {
      this.#started.delete(name);
      throw error;
    }
  }

  /** Deletes some of the keys whose queries have neither an entry nor a tombstone. */
  #forgetSome(): void {
    for (let checks = 0; checks < checksPerKey; checks++) {
      const { value, done } = this.#checked.next();
      if (done) {
        this.#checked = this.#started.entries();
        return;
      }
      const [name, { id, user }] = value;
      if (typeof id === 'string' && !this.#queries.knows(id, user)) this.#started.delete(name);
    }
  }
}

/** A hash, which takes the same memory for every length of user and key. */
function nameOf(scope: string, user: string, key: string): string {
  return hash('sha256', `${scope} ${ownedKey(user, key)}`, 'base64');
}
