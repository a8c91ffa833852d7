// FLOAT and DOUBLE values of binary rows, printed as both servers print them in text rows (MySQL source, `my_fcvt` and
// `my_gcvt`). src/worker/binary-values.ts does the same.

import { Decimal, eightZeros, smallPowerMax } from './decimal';
import { letterE, minus, point, zero } from './shared/ascii';
import { decimalsNotFixed, pointMax, pointMin } from './shared/precision';
import * as valueType from './shared/value-type';
import { digits, exponent, quadruple, roundDigits, setDigits } from './shortest';
import { firstBytes, vectorBytes } from './simd';

/** Ten to the powers from 0 to `smallPowerMax`, which are exact as doubles. */
const exactPowers: usize = memory.data(8 * 20, 8);

/** Up to so many decimals and below this limit, arithmetic with doubles is tried first. */
const plainDecimals = 8;
const plainMax: f64 = 1e9;
/** Below `plainMax`, a product's rounding error is far less than the distance of this from a tie. */
const tieFrom: f64 = 0.4999;
const plainFloatMin: f64 = 1e-3;
const plainDoubleMin: f64 = 1e-8;
/** Below these limits, whole numbers are printed as integers. */
const wholeMax: f64 = 1e15;
const floatWholeMax: f64 = 1e6;

/** Results of `setDigitText`: the digits followed by zeros, their count without trailing zeros, and the point's position. */
const digitText: usize = memory.data(64, 16);
let digitCount: i32 = 0;
let pointAt: i32 = 0;

/** @param value the column's entry in `values`: its type, and decimals in the upper byte */
export function writeFloatValue(value: u32, at: usize, from: usize): usize {
  const isFloat = (value & 0xff) === valueType.float;
  const signed = isFloat ? <f64>load<f32>(from) : load<f64>(from);
  const number = abs(signed);
  // Both servers print infinity and NaN as 0.
  if (!(number < Infinity)) {
    store<u8>(at, zero);
    return at + 1;
  }
  store<u8>(at, minus);
  const to = at + <usize>(reinterpret<u64>(signed) >> 63);
  const decimals = <i32>(value >> 8);
  if (decimals < decimalsNotFixed) {
    if (decimals <= plainDecimals && number < plainMax) {
      const scaled = number * load<f64>(exactPowers + 8 * <usize>decimals);
      const nearest = floor(scaled + 0.5);
      if (scaled < plainMax && abs(scaled - nearest) < tieFrom) return writePlainFixed(to, <u64>nearest, decimals);
    }
    setDigits(reinterpret<u64>(number), true);
    return writeFixed(to, decimals);
  }
  const limit = isFloat ? floatWholeMax : wholeMax;
  if (number < limit && number === floor(number)) return Decimal.writeUnsigned(to, <u64>number);
  if (isFloat) {
    if (number < floatWholeMax && number >= plainFloatMin) {
      // The decimals of a number of six digits.
      const count =
        i32(number < 1e5) +
        i32(number < 1e4) +
        i32(number < 1e3) +
        i32(number < 1e2) +
        i32(number < 1e1) +
        i32(number < 1) +
        i32(number < 1e-1) +
        i32(number < 1e-2);
      const scaled = number * load<f64>(exactPowers + 8 * <usize>count);
      const nearest = floor(scaled + 0.5);
      if (abs(scaled - nearest) < tieFrom) {
        return writePlain(to, <u64>nearest * Decimal.smallPower(plainDecimals - count));
      }
    }
    setDigits(reinterpret<u64>(number), false);
    // Leaves six of the 16 or 17 digits.
    roundDigits(quadruple < 40000000000000000 ? 10 : 11);
    return writeGeneral(to);
  }
  if (number < plainMax && number >= plainDoubleMin) {
    // At most one number of up to 15 digits is read back as this double, so it is the shortest.
    const isSmall = number < 1e7;
    const power: f64 = isSmall ? 1e8 : 1e6;
    const nearest = floor(number * power + 0.5);
    if (nearest / power === number) return writePlain(to, <u64>nearest * (isSmall ? 1 : 100));
  }
  setDigits(reinterpret<u64>(number), true);
  return writeGeneral(to);
}

/** Writes `value` times 10^-8 without trailing zeros. */
function writePlain(at: usize, value: u64): usize {
  const whole = value / 100000000;
  const to = Decimal.writeUnsigned(at, whole);
  const fraction = Decimal.eightDigitValues(<u32>(value - whole * 100000000));
  store<u8>(to, point);
  store<u64>(to, fraction | eightZeros, 1);
  // Trailing zeros are the leading zero bytes of `fraction`. Without any other digit there is no point either.
  const count = <usize>((71 - clz(fraction)) >> 3);
  return to + count + usize(count > 0);
}

/** Writes `value` times 10^-decimals, with all `decimals`, 8 at most. */
function writePlainFixed(at: usize, value: u64, decimals: i32): usize {
  const power = Decimal.smallPower(decimals);
  const whole = value / power;
  const to = Decimal.writeUnsigned(at, whole);
  if (decimals === 0) return to;
  const rest = (value - whole * power) * Decimal.smallPower(plainDecimals - decimals);
  store<u8>(to, point);
  store<u64>(to, Decimal.eightDigits(<u32>rest), 1);
  return to + 1 + <usize>decimals;
}

/** Sets `digitText`, `digitCount` and `pointAt` from `digits` and `exponent`. */
function setDigitText(): void {
  const end = Decimal.writeUnsigned(digitText, digits);
  const zeros = i8x16.splat(<i8>zero);
  v128.store(end, zeros);
  v128.store(end, zeros, vectorBytes);
  const all = end - digitText;
  const others =
    ~(
      i8x16.bitmask(i8x16.eq(v128.load(digitText), zeros)) |
      (i8x16.bitmask(i8x16.eq(v128.load(digitText, vectorBytes), zeros)) << 16)
    ) & firstBytes(all);
  digitCount = max(1, 32 - <i32>clz(others));
  pointAt = <i32>all + exponent;
}

/** Writes all digits, with an exponent if the point is far from them. */
function writeGeneral(at: usize): usize {
  setDigitText();
  const count = <usize>digitCount;
  if (pointAt < pointMin || (pointAt > pointMax && pointAt >= digitCount)) {
    store<u8>(at, load<u8>(digitText));
    store<u8>(at, point, 1);
    v128.store(at, v128.load(digitText, 1), 2);
    let to = at + (count > 1 ? count + 1 : 1);
    store<u8>(to++, letterE);
    if (pointAt < 1) store<u8>(to++, minus);
    return Decimal.writeUnsigned(to, <u64>abs(pointAt - 1));
  }
  if (pointAt <= 0) {
    v128.store(at, i8x16.splat(<i8>zero));
    store<u8>(at, point, 1);
    const to = at + 2 + <usize>-pointAt;
    v128.store(to, v128.load(digitText));
    store<u8>(to, load<u8>(digitText, vectorBytes), vectorBytes);
    return to + count;
  }
  const whole = <usize>pointAt;
  v128.store(at, v128.load(digitText));
  if (count <= whole) return at + whole;
  store<u8>(at + whole, point);
  v128.store(at + whole, v128.load(digitText + whole), 1);
  return at + count + 1;
}

/** Rounds to `decimals` and writes all of them. */
function writeFixed(at: usize, decimals: i32): usize {
  const cut = -decimals - exponent;
  if (cut > smallPowerMax || (cut > 0 && digits % Decimal.smallPower(cut) !== 0)) roundDigits(cut);
  setDigitText();
  let to = at;
  // Places are counted as powers of ten plus one: 1 is the place of the units.
  for (let place = max(pointAt, 1); place > -decimals; place--) {
    if (place === 0) store<u8>(to++, point);
    const index = pointAt - place;
    store<u8>(to++, index >= 0 && index < digitCount ? load<u8>(digitText + <usize>index) : zero);
  }
  return to;
}

for (let power = 0, value: f64 = 1; power <= smallPowerMax; power++, value *= 10) {
  store<f64>(exactPowers + 8 * <usize>power, value);
}
