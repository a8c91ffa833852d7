import { hash } from 'node:crypto';
import type { Queries } from './queries.ts';
import type { Query } from '../query/query.ts';
import { ownedKey } from '../removals.ts';
import type { Dialect } from '../http/dialects.ts';

interface Begun {
  readonly user: string;
  readonly digest: string;
  /** Of the query, as soon as there is one; of the query itself nothing is kept. */
  id: string | Promise<string>;
}

export type Retried =
  | { readonly type: 'query'; readonly query: Query }
  /** The key stands for another body. */
  | { readonly type: 'other body' }
  /** The query has been there, and is no more. */
  | { readonly type: 'removed'; readonly id: string; readonly reason: string };

/** So many keys are looked at for each new one, so that no request pays for all of them. */
const looksPerKey = 4;

/**
 * POSTs that name themselves by a key: one that comes again, because its answer was lost, stands for the query that it has
 * begun, and begins no other. A key is remembered for as long as its query, or why that is no more.
 */
export class Retries {
  readonly #queries: Queries;
  readonly #begun = new Map<string, Begun>();
  /** Goes round the keys. It is kept, as a new one would first have to pass what was deleted at the beginning of the map. */
  #looking = this.#begun.entries();

  constructor(queries: Queries) {
    this.#queries = queries;
  }

  /**
   * @param key the user's own, in that dialect
   * @param digest of the body; the same key must come with the same body
   * @param begin makes the query; called for the first of those that come with the key, or again if it has failed
   * @throws whatever `begin` throws, for all who wait for it
   */
  async once(
    dialect: Dialect,
    user: string,
    key: string,
    digest: string,
    begin: () => Promise<Query>,
  ): Promise<Retried> {
    const name = nameOf(dialect, user, key);
    const before = this.#begun.get(name);
    if (before === undefined) return { type: 'query', query: await this.#begin(name, { digest, user }, begin) };
    if (before.digest !== digest) return { type: 'other body' };
    const id = await before.id;
    const query = this.#queries.find(id, user);
    if (query !== undefined) return { type: 'query', query };
    return { type: 'removed', id, reason: this.#queries.whyRemoved(id, user) ?? 'is no more' };
  }

  async #begin(name: string, post: Pick<Begun, 'digest' | 'user'>, begin: () => Promise<Query>): Promise<Query> {
    this.#forgetSome();
    const starting = begin();
    const begun: Begun = { ...post, id: starting.then((query) => query.identity.id) };
    this.#begun.set(name, begun);
    try {
      begun.id = await begun.id;
      return await starting;
    } catch (error) {
      this.#begun.delete(name);
      throw error;
    }
  }

  /** Forgets some of the keys whose queries are neither held nor remembered. */
  #forgetSome(): void {
    for (let looks = 0; looks < looksPerKey; looks++) {
      const { value, done } = this.#looking.next();
      if (done) {
        this.#looking = this.#begun.entries();
        return;
      }
      const [name, { id, user }] = value;
      if (typeof id === 'string' && !this.#queries.knows(id, user)) this.#begun.delete(name);
    }
  }
}

/** A hash, which takes the same memory for every length of user and key. */
function nameOf(dialect: Dialect, user: string, key: string): string {
  return hash('sha256', `${dialect} ${ownedKey(user, key)}`, 'base64');
}
