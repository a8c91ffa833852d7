// The shortest decimal digits that are read back as a double, by the method "Schubfach" (R. Giulietti, "The Schubfach way to
// render doubles", 2021).

import { Decimal, smallPowerMax } from './decimal';
import { powers } from './layout';
import { powerMin } from './shared/sizes';

/** Bits of a double's fraction (IEEE 754). */
const fractionBits: u64 = 52;
/** The bias of a double's exponent, for a significand that is an integer. */
const exponentBias = 1075;
const low63Bits: u64 = ((<u64>1) << 63) - 1;

/** Results of `setDigits`: the number is `digits` times ten to the `exponent`. */
export let digits: u64 = 0;
export let exponent: i32 = 0;
/** Four times the number in units of ten to the `exponent`, rounded to odd: the last bit is set if the rest is not zero. */
export let quadruple: u64 = 0;

/**
 * Sets `exponent` and `quadruple`, which has 16 or 17 digits, for a positive finite double.
 * @param wantsShortest also sets `digits` to the shortest that are read back as the double, the nearest of several
 */
export function setDigits(bits: u64, wantsShortest: bool): void {
  const fraction = bits & (((<u64>1) << fractionBits) - 1);
  const biased = <i32>(bits >> fractionBits);
  const significand = biased === 0 ? fraction : fraction | ((<u64>1) << fractionBits);
  const binaryExponent = max(biased, 1) - exponentBias;
  // Doubles just below a power of two are half as far apart.
  const isPowerOfTwo = fraction === 0 && biased > 1;
  // Decimal logarithms of 3/4 and 2, times 2^41, and the binary logarithm of 10, times 2^38.
  const log3Quarters: i64 = isPowerOfTwo ? -274743187321 : 0;
  exponent = <i32>((<i64>binaryExponent * 661971961083 + log3Quarters) >> 41);
  const shift = <u64>(binaryExponent + <i32>((<i64>-exponent * 913124641741) >> 38) + 2);
  const power = powers + 16 * <usize>(-exponent - powerMin);
  const high = load<u64>(power);
  const low = load<u64>(power, 8);
  const number = significand << 2;
  quadruple = Product.roundedToOdd(high, low, number << shift);
  if (!wantsShortest) return;

  // The bounds of an even significand are read back as it (IEEE 754, ties to even).
  const odd = significand & 1;
  const lower = Product.roundedToOdd(high, low, (number - (isPowerOfTwo ? 1 : 2)) << shift) + odd;
  const upper = Product.roundedToOdd(high, low, (number + 2) << shift) - odd;
  const floored = quadruple >> 2;
  const tens = (floored / 10) * 10;
  const isTens = lower <= tens << 2;
  if (isTens !== (tens + 10) << 2 <= upper) {
    digits = isTens ? tens : tens + 10;
    return;
  }
  const isFloored = lower <= floored << 2;
  if (isFloored !== (floored + 1) << 2 <= upper) {
    digits = isFloored ? floored : floored + 1;
    return;
  }
  const quarters = quadruple & 3;
  digits = quarters < 2 || (quarters === 2 && (floored & 1) === 0) ? floored : floored + 1;
}

/** Sets `digits` to `quadruple` without its last `count` digits, rounded to the nearest, and a tie to even. */
export function roundDigits(count: i32): void {
  exponent += count;
  digits = 0;
  // All 17 digits are removed, and they are less than a half of the last place that is left.
  if (count > smallPowerMax) return;
  const unit = Decimal.smallPower(count) << 2;
  const kept = quadruple / unit;
  const rest = quadruple - kept * unit;
  digits = kept + u64(rest > unit >> 1 || (rest === unit >> 1 && (kept & 1) !== 0));
}

class Product {
  /** The product with a power of ten of 126 bits, `high` and `low`, rounded to odd. */
  @inline static roundedToOdd(high: u64, low: u64, factor: u64): u64 {
    const middle = ((high * factor) >> 1) + Product.upperHalf(low, factor);
    return (Product.upperHalf(high, factor) + (middle >> 63)) | (((middle & low63Bits) + low63Bits) >> 63);
  }

  /** The upper 64 bits of a product. */
  @inline static upperHalf(a: u64, b: u64): u64 {
    const aLow = a & 0xffffffff;
    const aHigh = a >> 32;
    const bLow = b & 0xffffffff;
    const bHigh = b >> 32;
    const first = aHigh * bLow + ((aLow * bLow) >> 32);
    const second = aLow * bHigh + (first & 0xffffffff);
    return aHigh * bHigh + (first >> 32) + (second >> 32);
  }
}
