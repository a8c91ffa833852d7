import { createHash } from 'node:crypto';

/** Statements that are remembered; a newer one takes the place of an older one. */
const places = 16_384;
/** Per place: the digest of a statement, or zeros. */
const wordsPerPlace = 2;
/** Characters of a text that decide its place. */
const samples = 32;
const fnvOffset = 0x81_1c_9d_c5;
const fnvPrime = 0x01_00_01_93;

/** Who runs a statement, and where. */
export interface StatementScope {
  readonly user: string;
  /** See `Login`. */
  readonly database: string | null;
}

/**
 * Which statements returned many rows the last time, of all threads together. A hint: nothing depends on it but speed. It takes 128
 * KiB whatever is run.
 */
export class LargeResults {
  static readonly bytes = places * wordsPerPlace * Uint32Array.BYTES_PER_ELEMENT;
  readonly #digests: Uint32Array;

  /** @param shared of `LargeResults.bytes` */
  constructor(shared: SharedArrayBuffer) {
    this.#digests = new Uint32Array(shared);
  }

  has(scope: StatementScope, sql: string): boolean {
    const at = placeOf(sql);
    // Most places are empty, so most statements have no digest computed.
    if (this.#digests[at] === 0 && this.#digests[at + 1] === 0) return false;
    const [first, second] = digestOf(scope, sql);
    return this.#digests[at] === first && this.#digests[at + 1] === second;
  }

  add(scope: StatementScope, sql: string): void {
    this.#digests.set(digestOf(scope, sql), placeOf(sql));
  }

  delete(scope: StatementScope, sql: string): void {
    if (this.has(scope, sql)) this.#digests.fill(0, placeOf(sql), placeOf(sql) + wordsPerPlace);
  }
}

/** By the length of the text and characters at equal distances (FNV-1a). */
function placeOf(sql: string): number {
  const { length } = sql;
  const step = Math.max(1, Math.floor(length / samples));
  let hash = fnvOffset ^ length;
  for (let at = length - 1; at >= 0; at -= step) hash = Math.imul(hash ^ sql.charCodeAt(at), fnvPrime);
  // The lower bits of a product depend on the lower bits of its factors alone.
  return ((hash ^ (hash >>> 16)) & (places - 1)) * wordsPerPlace;
}

function digestOf({ user, database }: StatementScope, sql: string): [number, number] {
  const digest = createHash('sha1')
    .update(JSON.stringify([user, database]))
    .update(sql)
    .digest();
  // Zeros mark an empty place.
  return [digest.readUInt32LE(0) | 1, digest.readUInt32LE(4)].map((word) => word >>> 0) as [number, number];
}
