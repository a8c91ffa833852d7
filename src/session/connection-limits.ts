import type { Config } from '../config/config.ts';
import type { SharedLimit } from '../share.ts';
import type { Lease } from './lease.ts';

/** How many connections may be in use: by the options, and by the limits of the database and of its users' accounts. */
export class ConnectionLimits {
  readonly #connectionsMax: number;
  readonly #connectionsPerUserMax: number;
  /** The connection limit of the database, less a reserve for logins and kills. */
  #databaseMax = Number.POSITIVE_INFINITY;
  /** The same for users whose account has its own limit. */
  readonly #userMax = new Map<string, number>();

  /** @param options `connectionsPerUserMax` with its default */
  constructor({ connectionsMax, connectionsPerUserMax }: Config['connections']) {
    this.#connectionsMax = connectionsMax;
    this.#connectionsPerUserMax = connectionsPerUserMax;
  }

  /** Each connection reports the limits when it is opened, as they can change at any time. */
  update({ databaseConnectionsMax, userConnectionsMax }: Lease, user: string): void {
    this.#databaseMax = Math.max(1, databaseConnectionsMax - Math.max(2, Math.ceil(databaseConnectionsMax / 10)));
    if (userConnectionsMax === 0) this.#userMax.delete(user);
    else this.#userMax.set(user, Math.max(1, userConnectionsMax - (userConnectionsMax > 3 ? 2 : 1)));
  }

  /** How many connections may be in use. Idle ones count as free: each can be closed to make room for another. */
  of(user: string): SharedLimit {
    const max = Math.min(this.#connectionsMax, this.#databaseMax);
    const share =
      max === this.#connectionsMax
        ? this.#connectionsPerUserMax
        : Math.floor((max * this.#connectionsPerUserMax) / this.#connectionsMax);
    const perUserMax = Math.max(1, Math.min(share, this.#userMax.get(user) ?? share));
    return { max, perUserMax };
  }
}
