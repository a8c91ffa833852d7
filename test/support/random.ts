// Random values for tests, from a generator with a seed, so that a failure can be had again: SEED=… in the environment.

import { randomInt } from 'node:crypto';
import type { Test } from 'tap';

/** Gives a whole number from 0 up to, and not including, `below`. */
export type Random = (below: number) => number;

/** A small generator. Its seed is printed with the results of the test. */
export function seeded(t: Test): Random {
  return generator(seedOf(t));
}

/** The seed of a test that makes several generators of it. It is printed with the results of the test. */
export function seedOf(t: Test): number {
  const seed = Number(process.env['SEED'] ?? randomInt(2 ** 32));
  t.comment(`SEED=${seed}`);
  return seed;
}

/**
 * The generator (mulberry32) of a seed, or of one of its cases: work that is done side by side draws in no certain order, so
 * each part of it draws from a generator of its own.
 */
export function generator(seed: number, number = 0): Random {
  let state = (seed + Math.imul(number, 0x9e3779b1)) >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

export function pick<T>(random: Random, values: readonly T[]): T {
  return values[random(values.length)] as T;
}

export function randomBytes(random: Random, size: number): Buffer {
  return Buffer.from(Uint8Array.from({ length: size }, () => random(256)));
}

/** Byte patterns after which a decoder of UTF-8 may be in any state. */
const fragments = [
  [0x00],
  [0x22],
  [0x5c],
  [0x1f],
  [0x7f],
  [0x80],
  [0xbf],
  [0xc0, 0x80],
  [0xc1],
  [0xc3, 0xa9],
  [0xc3],
  [0xe0, 0x80, 0x80],
  [0xe0, 0xa0, 0x80],
  [0xe2, 0x80, 0xa8],
  [0xe2, 0x82],
  [0xed, 0x9f, 0xbf],
  [0xed, 0xa0, 0x80],
  [0xef, 0xbb, 0xbf],
  [0xf0, 0x80, 0x80, 0x80],
  [0xf0, 0x90, 0x80, 0x80],
  [0xf0, 0x9f, 0x98],
  [0xf4, 0x8f, 0xbf, 0xbf],
  [0xf4, 0x90, 0x80, 0x80],
  [0xf5],
  [0xff],
];

/** Text in which hardly a sequence is whole. */
export function invalidText(random: Random, size: number): Buffer {
  const bytes: number[] = [];
  while (bytes.length < size) bytes.push(...pick(random, fragments));
  return Buffer.from(bytes.slice(0, size));
}
