// Decimal digits of integers.

import { zero } from './shared/ascii';

/** Ten to the powers from 0 to `smallPowerMax`. */
const smallPowers: usize = memory.data(8 * 20, 8);
export const smallPowerMax = 17;
/**
 * Per position of the highest bit of a 32-bit number, an addend that makes the upper half of the sum the number of decimal
 * digits (D. Lemire, "Computing the number of digits of an integer even faster", 2021).
 */
const digitCounts: usize = memory.data(8 * 32, 8);

/** "00000000". */
export const eightZeros: u64 = ((<u64>0x30303030) << 32) | 0x30303030;

export class Decimal {
  @inline static smallPower(exponent: i32): u64 {
    return load<u64>(smallPowers + 8 * <usize>exponent);
  }

  @inline static writeUnsigned(at: usize, value: u64): usize {
    return value < 100000000 ? Decimal.writeSmall(at, <u32>value) : writeLarge(at, value);
  }

  /** Writes a number of up to eight digits. */
  @inline static writeSmall(at: usize, value: u32): usize {
    const digits = Decimal.eightDigits(value);
    // Computed from the value, so that it does not wait for the digits.
    const count = (<u64>value + load<u64>(digitCounts + 8 * (31 - <usize>clz(value | 1)))) >> 32;
    store<u64>(at, digits >> (64 - 8 * count));
    return at + <usize>count;
  }

  /** The eight digits of a number below 10^8 in ASCII, the first one in the lowest byte. */
  @inline static eightDigits(value: u32): u64 {
    return Decimal.eightDigitValues(value) | eightZeros;
  }

  /** The same as numbers from 0 to 9. All parts are halved at once: into 4 digits, then 2, then 1. */
  @inline static eightDigitValues(value: u32): u64 {
    const high = value / 10000;
    const fours = <u64>high | ((<u64>(value - high * 10000)) << 32);
    const hundreds = ((fours * 10486) >> 20) & 0x0000007f0000007f;
    const twos = hundreds | ((fours - hundreds * 100) << 16);
    const tens = ((twos * 103) >> 10) & 0x000f000f000f000f;
    return tens | ((twos - tens * 10) << 8);
  }

  /** The digits of eight numbers up to 99 in ASCII, two bytes each. */
  @inline static twoDigitsEach(numbers: v128): v128 {
    const tens = i16x8.shr_u(i16x8.mul(numbers, i16x8.splat(103)), 10);
    const units = i16x8.sub(numbers, i16x8.mul(tens, i16x8.splat(10)));
    return v128.or(v128.or(tens, i16x8.shl(units, 8)), i8x16.splat(<i8>zero));
  }
}

/** Writes a number of more than eight digits. */
function writeLarge(at: usize, value: u64): usize {
  const high = value / 100000000;
  let to: usize;
  if (high < 100000000) {
    to = Decimal.writeSmall(at, <u32>high);
  } else {
    const highest = high / 100000000;
    to = Decimal.writeSmall(at, <u32>highest);
    store<u64>(to, Decimal.eightDigits(<u32>(high - highest * 100000000)));
    to += 8;
  }
  store<u64>(to, Decimal.eightDigits(<u32>(value - high * 100000000)));
  return to + 8;
}

for (let power = 0, value: u64 = 1; power <= smallPowerMax; power++, value *= 10) {
  store<u64>(smallPowers + 8 * <usize>power, value);
}

for (let bits: u64 = 0, count: u64 = 1, power: u64 = 10; bits < 32; bits++) {
  // `first` is the smallest number with this highest bit and has `count` digits. From `power` on there is one more.
  const first = (<u64>1) << bits;
  if (first >= power) {
    power *= 10;
    count++;
  }
  const hasPower = power <= 2 * first - 1;
  store<u64>(digitCounts + 8 * <usize>bits, hasPower ? ((count + 1) << 32) - power : count << 32);
}
