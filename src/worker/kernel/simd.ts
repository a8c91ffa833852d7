// Vectors of 16 bytes (WebAssembly SIMD) and blocks of two vectors, in which cells are read: most cells fit in one block.

import { point, zero } from './shared/ascii';

export const vectorBytes: usize = 16;
export const blockBytes: usize = 32;

/** A mask of the first `count` bytes of a block, 32 at most. */
export function firstBytes(count: usize): u32 {
  return <u32>(((<u64>1) << count) - 1);
}

/** Lanes of all ones where a byte is a decimal digit. */
export function digitLanes(vector: v128): v128 {
  return i8x16.le_u(i8x16.sub(vector, i8x16.splat(<i8>zero)), i8x16.splat(9));
}

/** Lanes of all ones where a byte is a decimal point. */
export function pointLanes(vector: v128): v128 {
  return i8x16.eq(vector, i8x16.splat(<i8>point));
}

export function copyBytes(at: usize, start: usize, end: usize): usize {
  for (let from = start; from < end; from += vectorBytes) v128.store(at + (from - start), v128.load(from));
  return at + (end - start);
}
