import { stringBytes } from '../../wire/heap-bytes.ts';

/** About what an entry takes beside its id and its text. */
const entryBytes = 128;

/** Of one user, by the ids of the queries, the oldest first. */
interface UserSessions {
  readonly texts: Map<string, string>;
  bytes: number;
}

/**
 * Sessions that were sent with answers of `/final`, as JSON, for a client that has lost the answer and asks again. The latest are
 * kept, in bounded memory: when there is no room, the user whose sessions take most of it loses the oldest.
 */
export class FinalSessions {
  readonly #bytesMax: number;
  readonly #users = new Map<string, UserSessions>();
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  add(user: string, id: string, text: string): void {
    this.delete(user, id);
    const sessions = this.#users.get(user) ?? { texts: new Map(), bytes: 0 };
    this.#users.set(user, sessions);
    sessions.texts.set(id, text);
    this.#count(sessions, bytesOf(id, text));
    while (this.#bytes > this.#bytesMax) this.#makeRoom();
  }

  find(user: string, id: string): string | undefined {
    return this.#users.get(user)?.texts.get(id);
  }

  delete(user: string, id: string): void {
    const sessions = this.#users.get(user);
    if (sessions !== undefined) this.#drop(user, sessions, id);
  }

  #makeRoom(): void {
    let most: [user: string, sessions: UserSessions] | null = null;
    for (const entry of this.#users) if (most === null || entry[1].bytes > most[1].bytes) most = entry;
    if (most === null) return;
    const [oldest] = most[1].texts.keys();
    if (oldest !== undefined) this.#drop(...most, oldest);
  }

  #drop(user: string, sessions: UserSessions, id: string): void {
    const text = sessions.texts.get(id);
    if (text === undefined) return;
    sessions.texts.delete(id);
    this.#count(sessions, -bytesOf(id, text));
    if (sessions.texts.size === 0) this.#users.delete(user);
  }

  #count(sessions: UserSessions, bytes: number): void {
    sessions.bytes += bytes;
    this.#bytes += bytes;
  }
}

function bytesOf(id: string, text: string): number {
  return entryBytes + stringBytes(id) + stringBytes(text);
}
