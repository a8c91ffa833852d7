import type { Lease } from './lease.ts';

interface IdleLease {
  readonly lease: Lease;
  readonly user: string;
  /** When it became idle, by `performance.now()`. */
  readonly since: number;
}

/** The idle connections, which are kept open for further statements. */
export class IdleLeases {
  readonly #ageMsMax: number;
  /** By the key of their login (see `keyOf`); of each key the longest unused first. */
  readonly #byKey = new Map<string, IdleLease[]>();

  /** @param ageMsMax how long after its login a connection is used for further statements */
  constructor(ageMsMax: number) {
    this.#ageMsMax = ageMsMax;
  }

  get size(): number {
    let size = 0;
    for (const idle of this.#byKey.values()) size += idle.length;
    return size;
  }

  /** Keeps a connection, or closes it if it is too old. */
  add(lease: Lease, key: string, user: string): void {
    if (lease.isClosed) return;
    if (this.#isTooOld(lease)) {
      lease.close();
      return;
    }
    const entry = { lease, user, since: performance.now() };
    const idle = this.#byKey.get(key);
    if (idle === undefined) this.#byKey.set(key, [entry]);
    else idle.push(entry);
  }

  /** Takes the most recently used one, so that surplus ones become old and are closed; none whose thread does not answer. */
  take(key: string): Lease | undefined {
    const idle = this.#byKey.get(key);
    if (idle === undefined) return undefined;
    let taken: Lease | undefined;
    for (let at = idle.length - 1; at >= 0 && taken === undefined; at--) {
      const { lease } = idle[at] as IdleLease;
      if (!lease.isAnswering) continue;
      idle.splice(at, 1);
      if (this.#isTooOld(lease)) lease.close();
      else taken = lease;
    }
    if (idle.length === 0) this.#byKey.delete(key);
    return taken;
  }

  /** Removes a connection that is lost; does nothing if it is not idle. */
  remove(lease: Lease, key: string): void {
    const idle = this.#byKey.get(key)?.filter((entry) => entry.lease !== lease);
    if (idle === undefined) return;
    if (idle.length === 0) this.#byKey.delete(key);
    else this.#byKey.set(key, idle);
  }

  /**
   * Closes the connection that is unused the longest.
   * @param user whose connection it is; null: of any user
   * @returns false if there is none
   */
  closeLongestUnused(user: string | null = null): boolean {
    let longest: { key: string; since: number } | null = null;
    for (const [key, [first]] of this.#byKey) {
      if (first === undefined || (user !== null && first.user !== user)) continue;
      if (longest === null || first.since < longest.since) longest = { key, since: first.since };
    }
    if (longest === null) return false;
    const idle = this.#byKey.get(longest.key);
    idle?.shift()?.lease.close();
    if (idle?.length === 0) this.#byKey.delete(longest.key);
    return true;
  }

  /** Closes the connections that are too old, and those that are unused for longer than this. */
  closeUnused(idleMs: number): void {
    const oldest = performance.now() - idleMs;
    for (const [key, idle] of this.#byKey) {
      const kept = idle.filter(({ lease, since }) => since >= oldest && !this.#isTooOld(lease));
      for (const entry of idle) if (!kept.includes(entry)) entry.lease.close();
      if (kept.length === 0) this.#byKey.delete(key);
      else if (kept.length < idle.length) this.#byKey.set(key, kept);
    }
  }

  /** Closes the connections whose keys begin with this. */
  closeByKeyPrefix(prefix: string): void {
    for (const [key, idle] of this.#byKey) {
      if (!key.startsWith(prefix)) continue;
      for (const { lease } of idle) lease.close();
      this.#byKey.delete(key);
    }
  }

  closeAll(): void {
    this.closeByKeyPrefix('');
  }

  #isTooOld(lease: Lease): boolean {
    return performance.now() - lease.openedAt >= this.#ageMsMax;
  }
}
