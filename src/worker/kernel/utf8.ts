// Validation of UTF-8 by looking up each pair of bytes in three tables (J. Keiser and D. Lemire, "Validating UTF-8 in less
// than one instruction per byte", 2021). The names of the errors are theirs.

import { vectorBytes } from './simd';

const tooShort: i8 = 1;
const tooLong: i8 = 2;
const overlong3: i8 = 4;
const tooLarge: i8 = 8;
const surrogate: i8 = 16;
const overlong2: i8 = 32;
const tooLarge1000: i8 = 64;
const overlong4: i8 = 64;
const twoContinuations: i8 = -128;
/** The errors that do not depend on the low bits of the first byte. */
const carry: i8 = tooShort | tooLong | twoContinuations;
const carryLarge: i8 = carry | tooLarge | tooLarge1000;

/** Possible errors of a pair, by the high four bits of its first byte. */
const firstHigh = i8x16(
  tooLong,
  tooLong,
  tooLong,
  tooLong,
  tooLong,
  tooLong,
  tooLong,
  tooLong,
  twoContinuations,
  twoContinuations,
  twoContinuations,
  twoContinuations,
  tooShort | overlong2,
  tooShort,
  tooShort | overlong3 | surrogate,
  tooShort | tooLarge | tooLarge1000 | overlong4,
);
/** By its low four bits. */
const firstLow = i8x16(
  carry | overlong2 | overlong3 | overlong4,
  carry | overlong2,
  carry,
  carry,
  carry | tooLarge,
  carryLarge,
  carryLarge,
  carryLarge,
  carryLarge,
  carryLarge,
  carryLarge,
  carryLarge,
  carryLarge,
  carryLarge | surrogate,
  carryLarge,
  carryLarge,
);
/** By the high four bits of the second byte. */
const secondHigh = i8x16(
  tooShort,
  tooShort,
  tooShort,
  tooShort,
  tooShort,
  tooShort,
  tooShort,
  tooShort,
  tooLong | overlong2 | twoContinuations | overlong3 | tooLarge1000 | overlong4,
  tooLong | overlong2 | twoContinuations | overlong3 | tooLarge,
  tooLong | overlong2 | twoContinuations | surrogate | tooLarge,
  tooLong | overlong2 | twoContinuations | surrogate | tooLarge,
  tooShort,
  tooShort,
  tooShort,
  tooShort,
);

const positions = i8x16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);

/** Whether the bytes are UTF-8. */
export function isUtf8(start: usize, end: usize): bool {
  let before = i8x16.splat(0);
  let errors = i8x16.splat(0);
  // Bytes past the end are taken as 0. One of them is always included, so that a truncated sequence is an error.
  for (let from = start; from <= end; from += vectorBytes) {
    let vector = v128.load(from);
    if (end - from < vectorBytes) vector = v128.and(vector, i8x16.gt_s(i8x16.splat(<i8>(end - from)), positions));
    const previous1 = i8x16.shuffle(before, vector, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30);
    const previous2 = i8x16.shuffle(before, vector, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29);
    const previous3 = i8x16.shuffle(before, vector, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28);
    const pairs = v128.and(
      v128.and(
        i8x16.swizzle(firstHigh, i8x16.shr_u(previous1, 4)),
        i8x16.swizzle(firstLow, v128.and(previous1, i8x16.splat(0x0f))),
      ),
      i8x16.swizzle(secondHigh, i8x16.shr_u(vector, 4)),
    );
    // Two continuations in a row are valid, and required, in the third and fourth byte of a sequence.
    const third = i8x16.sub_sat_u(previous2, i8x16.splat(0x60));
    const fourth = i8x16.sub_sat_u(previous3, i8x16.splat(0x70));
    errors = v128.or(errors, v128.xor(pairs, v128.and(v128.or(third, fourth), i8x16.splat(<i8>0x80))));
    before = vector;
  }
  return !v128.any_true(errors);
}

/**
 * The length of the UTF-8 sequence at `from`, whose first byte is not ASCII. For a malformed one, the negated length of its
 * maximal subpart (Unicode 15, table 3-7).
 */
export function sequenceLength(from: usize, end: usize): i32 {
  const lead = load<u8>(from);
  if (lead < 0xc2 || lead > 0xf4) return -1;
  const length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  let low: u8 = lead === 0xe0 ? 0xa0 : lead === 0xf0 ? 0x90 : 0x80;
  let high: u8 = lead === 0xed ? 0x9f : lead === 0xf4 ? 0x8f : 0xbf;
  for (let index = 1; index < length; index++) {
    if (from + index >= end) return -index;
    const byte = load<u8>(from + index);
    if (byte < low || byte > high) return -index;
    low = 0x80;
    high = 0xbf;
  }
  return length;
}
