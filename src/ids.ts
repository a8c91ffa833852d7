import { randomFillSync } from 'node:crypto';

/** Random bytes for many ids, since one call of the generator costs much more than its bytes. */
const random = Buffer.alloc(16 * 256);
let taken = random.length;

/** An id that cannot be guessed (128 random bits). */
export function newSessionId(): string {
  return randomHex();
}

/** An id that sorts by time (48 bits of milliseconds) and cannot be guessed (128 random bits). */
export function newQueryId(): string {
  return Date.now().toString(16).padStart(12, '0') + randomHex();
}

/** When the query of that id was begun, in milliseconds since 1970; null if the id is malformed. */
export function timeOfQueryId(id: string): number | null {
  return /^[0-9a-f]{44}$/.test(id) ? Number.parseInt(id.slice(0, 12), 16) : null;
}

/** 128 random bits in hexadecimal. */
function randomHex(): string {
  if (taken === random.length) {
    randomFillSync(random);
    taken = 0;
  }
  taken += 16;
  return random.toString('hex', taken - 16, taken);
}

/** An id from a client, if it is safe in a message; else the other text. */
export function shownId(id: string, otherwise: string): string {
  return /^[\w.-]{1,64}$/.test(id) ? id : otherwise;
}
