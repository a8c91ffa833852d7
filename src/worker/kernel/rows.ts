// The packet-to-JSON loop in AssemblyScript, compiled to WebAssembly with SIMD. src/worker/cells.ts says what the JSON of
// a cell is; this says the same, 32 bytes at a time. Nothing is allocated: `at`, `from`, `to` and the like are addresses.
// A piece is loaded and stored whole, whatever part of it is wanted: what a store writes beyond that is overwritten by
// what comes next, and behind each region there is padding.

import {
  cellPieceBytes,
  columnsMax,
  headroomBytes,
  outputBytes,
  powerMax,
  powerMin,
  readBytes,
  rowsRoom,
} from './sizes';

/** As `cellKind`. */
enum Kind {
  number,
  text,
  hex,
  json,
  bits,
  bitsOrDigits,
  quotedNumber,
  quotedBits,
  quotedBitsOrDigits,
  date,
  timestamp,
}

/** As `valueType`. */
enum Value {
  string,
  int8,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  float,
  double,
  date,
  datetime,
  time,
}

/** As `kernelStop`, and one that the loader turns into an exception. */
enum Stop {
  inputUsed,
  notARow,
  outputFull,
  rowsMax,
  largeRow,
  rowTooLarge,
  malformed,
}

/** As `invalidCell`. */
const invalidText: u32 = 1;
const invalidJson: u32 = 2;

/** The most that a byte of a cell grows by, and what a cell needs besides (as in cells.ts). */
const cellGrowthMax: usize = 6;
const cellOverheadMax: usize = 24;

/** A vector of WebAssembly's. */
const blockBytes: usize = 16;
/** Cells are taken in pieces of two vectors: most cells take one. */
const pieceBytes: usize = 32;
/** Nulls are read past the end of a broken packet, one byte per column, before that is noticed. */
const inputPadding = columnsMax + 64;
/** The most that is stored beyond what is wanted. */
const outputPadding = 64;

/** The kinds of the columns, one byte each. */
export const kinds: usize = memory.data(columnsMax);
/** As `RowFormat.values`, 16 bits each. */
export const values: usize = memory.data(2 * columnsMax, 2);
/** For each power of ten from `powerMin` to `powerMax`, two numbers of 63 bits, which the loader writes. */
export const powers: usize = memory.data(16 * (powerMax - powerMin + 1), 8);
export const input: usize = memory.data(headroomBytes + readBytes + inputPadding, 64);
export const output: usize = memory.data(outputBytes + outputPadding, 64);
/** 32-bit offsets in the batch, one per row: where it ends. */
export const rowEnds: usize = memory.data(4 * rowsRoom, 64);

/** A piece of a large cell. */
export const cellPiece: usize = memory.data(cellPieceBytes + pieceBytes, 64);

/** What the last call came to. */
export let consumed: u32 = 0;
export let written: u32 = 0;
export let rows: u32 = 0;
/** As `Kernel.takeInvalid`: bits are only added here. */
export let invalid: u32 = 0;

/** What has been set by `setFormat`: where the kinds end; NULL with a comma behind it, which takes so many bytes. */
let kindsEnd: usize = 0;
let nullCell: u64 = 0;
let nullBytes: usize = 0;
let isBinary: bool = false;
/** What a row may need beyond what its bytes grow by. */
let rowOverhead: usize = 0;

/** For each byte of ASCII that JSON escapes: up to seven bytes of text, and in the eighth their number. */
const escapes: usize = memory.data(8 * 0x60, 8);

/** For each `Value` before the dates and times, how many bytes it takes. */
const valueSizes: usize = memory.data<u8>([0, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8]);

/**
 * What `setDigits` has found: the number is `digits` times ten to the `exponent`. `quadruple` is four times that before it
 * was rounded, in the same unit; its last bit is set if something is behind it.
 */
let digits: u64 = 0;
let exponent: i32 = 0;
let quadruple: u64 = 0;

/** What `setDigitText` has found: how many digits there are without zeros at the end, and how many before the point. */
let digitCount: i32 = 0;
let pointAt: i32 = 0;

/** The text of some digits, with zeros behind them. */
const digitText: usize = memory.data(64, 16);
/** Ten to the powers from 0 on. */
const smallPowers: usize = memory.data(8 * 20, 8);
const smallPowerMax = 17;
/** The same as doubles, which these are without rounding. */
const exactPowers: usize = memory.data(8 * 20, 8);
/** For each count of bits of a number, from 1 on, what makes the number of its decimal digits the higher half of the sum. */
const digitCounts: usize = memory.data(8 * 32, 8);

const headerBytes: usize = 4;
const largestPayload: usize = 0xffffff;
const errorHeader: u8 = 0xff;
const eofHeader: u8 = 0xfe;
/** A packet that begins with 0xfe is the end of the rows if it is shorter than this; else it is a row of a long cell. */
const eofBytesMax: usize = 9;
const binaryRowHeader: u8 = 0x00;
/** The first bits of a binary row's null bitmap are no column's. */
const nullBitsOffset: usize = 2;
const nullPrefix: usize = 0xfb;
const prefix2: usize = 0xfc;
const prefix3: usize = 0xfd;

const quote: u8 = 0x22;
const comma: u8 = 0x2c;
const plus: u8 = 0x2b;
const minus: u8 = 0x2d;
const zero: u8 = 0x30;
const bracketOpen: u8 = 0x5b;
const backslash: u8 = 0x5c;
const braceOpen: u8 = 0x7b;
const bracketClose: u8 = 0x5d;
const quoteComma: u32 = 0x2c22;
const nullComma: u64 = 0x2c6c6c756e;
const nullTextComma: u64 = 0x2c224c4c554e22;
const replacement = 0xbdbfef;

const dateLength: usize = 10;
const monthOffset: usize = 5;
const dayOffset: usize = 8;
/** Of a timestamp without a fraction of a second, and of one with all of it. */
const secondsLength: usize = 19;
const microsecondsLength: usize = 26;
/** Of a timestamp up to its minutes, and of a time. */
const minutesLength: usize = 16;
const timeLength: usize = 8;
/** What lengths a date of the binary protocol may have, a bit each. */
const dateLengths: u32 = (1 << 0) | (1 << 4) | (1 << 7) | (1 << 11);
const microsecondsMax: u32 = 999999;
/** Where the digits of the parts of `YYYY-MM-DD hh:mm` and of `hh:mm:ss` stand, -1 for a mark, and the marks. */
const datePlaces = i8x16(0, 1, 2, 3, -1, 4, 5, -1, 6, 7, -1, 8, 9, -1, 10, 11);
const dateMarks = i8x16(0, 0, 0, 0, 0x2d, 0, 0, 0x2d, 0, 0, 0x20, 0, 0, 0x3a, 0, 0);
const timePlaces = i8x16(0, 1, -1, 2, 3, -1, 4, 5, -1, -1, -1, -1, -1, -1, -1, -1);
const timeMarks = i8x16(0, 0, 0x3a, 0, 0, 0x3a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
const twoZeros: u16 = 0x3030;
const sixZeros: u64 = 0x303030303030;
const pointZeros: u64 = 0x3030303030302e;

const point: u8 = 0x2e;
const colon: u8 = 0x3a;
const letterE: u8 = 0x65;
const letterF: u8 = 0x66;
const letterN: u8 = 0x6e;
const letterT: u8 = 0x74;
const eightZeros: u64 = ((<u64>0x30303030) << 32) | 0x30303030;

/** As in binary-values.ts: how numbers are printed. */
const decimalsNotFixed = 31;
const pointMin = -14;
const pointMax = 15;
/** Numbers of up to so many decimals, and below this, are written by arithmetic with doubles where that is exact. */
const plainDecimals = 8;
const wholeLimit: f64 = 1e9;
/** Below this a product's rounding is far less than what is left to a tie here. */
const scaledLimit: f64 = 1e9;
const tieFrom: f64 = 0.4999;
const plainFloatMin: f64 = 1e-3;
const plainDoubleMin: f64 = 1e-8;
/** What a number of fixed decimals may need beyond what its bytes grow by: 309 digits, a point and 30 decimals. */
const fixedOverhead: usize = 320;
/** Below these, whole numbers of a double and of a float are printed as they are. */
const wholeMax: f64 = 1e15;
const floatWholeMax: f64 = 1e6;
const fractionDigitsMax: u32 = 6;

/** Of a double (IEEE 754): bits of its fraction, and what is added to its exponent, counted from the last of them. */
const fractionBits: u64 = 52;
const exponentBias = 1075;
const low63Bits: u64 = ((<u64>1) << 63) - 1;

const hexDigits = i8x16(0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46);
const positions = i8x16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);

/** What can be wrong with two bytes that follow each other, one bit each (see `isUtf8`). */
const tooShort: i8 = 1;
const tooLong: i8 = 2;
const overlong3: i8 = 4;
const tooLarge: i8 = 8;
const surrogate: i8 = 16;
const overlong2: i8 = 32;
const tooLarge1000: i8 = 64;
const overlong4: i8 = 64;
const twoContinuations: i8 = -128;

const afterAny: i8 = tooShort | tooLong | twoContinuations;
const afterLarge: i8 = afterAny | tooLarge | tooLarge1000;

const byFirstHigh = i8x16(
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
const byFirstLow = i8x16(
  afterAny | overlong2 | overlong3 | overlong4,
  afterAny | overlong2,
  afterAny,
  afterAny,
  afterAny | tooLarge,
  afterLarge,
  afterLarge,
  afterLarge,
  afterLarge,
  afterLarge,
  afterLarge,
  afterLarge,
  afterLarge,
  afterLarge | surrogate,
  afterLarge,
  afterLarge,
);
const bySecondHigh = i8x16(
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

/** Sets what rows are from now on; before, `kinds` and `values` have been written. */
export function setFormat(columns: i32, nullsAreText: bool, binary: bool): void {
  kindsEnd = kinds + columns;
  isBinary = binary;
  rowOverhead = <usize>columns * cellOverheadMax + 2;
  for (let column: usize = 0; binary && column < <usize>columns; column++) {
    const value: i32 = load<u16>(values + 2 * column);
    const type = value & 0xff;
    if ((type === Value.float || type === Value.double) && value >> 8 < decimalsNotFixed) rowOverhead += fixedOverhead;
  }
  nullCell = nullsAreText ? nullTextComma : nullComma;
  nullBytes = nullsAreText ? 7 : 5;
}

/**
 * Encodes the row packets in `input[start … stop)`, whose first byte begins a packet's header. `before` is the length of
 * the batch that the rows will be appended to.
 */
export function encode(start: i32, stop: i32, before: u32, rowsMax: u32, rowBytesMax: u32): Stop {
  const inputEnd = input + stop;
  const outputEnd = output + outputBytes;
  const overhead = rowOverhead;
  const lastRowEnd = rowEnds + rowsMax * 4;
  let packet = input + start;
  let to = output;
  let rowEnd = rowEnds;
  let reason = Stop.inputUsed;

  while (packet + headerBytes <= inputEnd) {
    const payload: usize = <usize>load<u32>(packet) & largestPayload;
    const needed = payload * cellGrowthMax + overhead;
    if (needed > <usize>outputBytes || payload === largestPayload) {
      reason = Stop.largeRow;
      break;
    }
    const from = packet + headerBytes;
    const end = from + payload;
    if (end > inputEnd) {
      if (headerBytes + payload > <usize>headroomBytes) reason = Stop.largeRow;
      break;
    }
    const first = load<u8>(from);
    if (first >= eofHeader && (first === errorHeader ? payload > 0 : payload - 1 < eofBytesMax - 1)) {
      reason = Stop.notARow;
      break;
    }
    if (needed > outputEnd - to) {
      reason = Stop.outputFull;
      break;
    }
    if (rowEnd === lastRowEnd) {
      reason = Stop.rowsMax;
      break;
    }
    let rowStart = to;
    if (before > 0 || to > output) store<u8>(rowStart++, comma);
    const rowStop = isBinary ? writeBinaryRow(rowStart, from, end) : writeRow(rowStart, from, end);
    if (rowStop <= <usize>Stop.malformed) {
      reason = <Stop>rowStop;
      break;
    }
    if (rowStop - rowStart > rowBytesMax) {
      reason = Stop.rowTooLarge;
      break;
    }
    to = rowStop;
    store<u32>(rowEnd, before + <u32>(to - output));
    rowEnd += 4;
    packet = end;
  }
  consumed = <u32>(packet - input);
  written = <u32>(to - output);
  rows = <u32>(rowEnd - rowEnds) >> 2;
  return reason;
}

/** Writes the text in `cellPiece`, in quotes, to the output, and returns how many bytes that takes. */
export function encodeText(length: u32): u32 {
  return <u32>(writeText(output, cellPiece, cellPiece + length) - output);
}

/** The same for bytes that are to be written as hex. */
export function encodeHex(length: u32): u32 {
  return <u32>(writeHex(output, cellPiece, cellPiece + length) - output);
}

/** What is too short to be called; decorators stand before methods alone. */
// biome-ignore lint/complexity/noStaticOnlyClass: see above.
class Inlined {
  /** Writes the cell whose text is there, or gives `Stop.largeRow`, as `writeBitCell` does. */
  @inline static writeCell(kind: u8, at: usize, from: usize, length: usize): usize {
    const cellEnd = from + length;
    let to = at;
    if (kind === Kind.text) {
      store<u8>(to, quote);
      const low = v128.load(from);
      const high = v128.load(from, blockBytes);
      v128.store(to, low, 1);
      v128.store(to, high, 1 + blockBytes);
      if (length <= pieceBytes && (specialBits(low, high) & firstBits(length)) === 0) {
        to += length + 1;
        store<u8>(to++, quote);
      } else {
        to = writeText(to, from, cellEnd);
      }
    } else if (kind === Kind.number) {
      const low = v128.load(from);
      const high = v128.load(from, blockBytes);
      v128.store(to, low);
      v128.store(to, high, blockBytes);
      if (Inlined.isPlainNumber(from, length, low, high)) {
        to += length;
      } else {
        to = writeNumber(to, from, cellEnd);
      }
    } else if (kind === Kind.quotedNumber) {
      store<u8>(to, quote);
      const low = v128.load(from);
      const high = v128.load(from, blockBytes);
      v128.store(to, low, 1);
      v128.store(to, high, 1 + blockBytes);
      if (Inlined.isPlainNumber(from, length, low, high)) {
        to += length + 1;
        store<u8>(to++, quote);
      } else {
        to = writeQuotedNumber(to, from, cellEnd);
      }
    } else if (kind === Kind.hex) {
      to = writeHex(to, from, cellEnd);
    } else if (kind === Kind.json) {
      to = writeJson(to, from, cellEnd);
    } else if (<i32>kind >= Kind.date) {
      to = writeDate(kind, to, from, cellEnd);
    } else {
      to = writeBitCell(kind, to, from, cellEnd);
    }
    return to;
  }

  /**
   * Whether the cell is a JSON number (RFC 8259, section 6) of at most 31 characters and a sign, without an exponent. Signs,
   * points and zeros come in any order, hence no branches. It may say no of a number that ends before the next cell.
   * @param low the first vector of the cell, and `high` the second
   */
  @inline static isPlainNumber(from: usize, length: usize, low: v128, high: v128): bool {
    const sign = usize(load<u8>(from) === minus);
    const count = length - sign;
    const digits = (i8x16.bitmask(toDigits(low)) | (i8x16.bitmask(toDigits(high)) << 16)) >> <u32>sign;
    const points = (i8x16.bitmask(toPoints(low)) | (i8x16.bitmask(toPoints(high)) << 16)) >> <u32>sign;
    // The digits end with the cell; a point stands between two of them.
    const others = ~digits & firstBits(count);
    const atEnds = others & (1 | (1 << (<u32>count - 1)));
    const leadingZero = u32(load<u8>(from + sign) === zero) & (digits >> 1);
    return count - 1 < pieceBytes - 1 && (atEnds | (others & ~points) | (others & (others - 1)) | leadingZero) === 0;
  }

  @inline static writeUnsigned(at: usize, value: u64): usize {
    return value < 100000000 ? Inlined.writeLeadingDigits(at, <u32>value) : writeLargeUnsigned(at, value);
  }

  /** A number of up to eight digits, without zeros before them. */
  @inline static writeLeadingDigits(at: usize, value: u32): usize {
    const text = Inlined.eightDigits(value);
    // Counted apart from the digits, since what comes next need not wait for these.
    const count = (<u64>value + load<u64>(digitCounts + 8 * (31 - <usize>clz(value | 1)))) >> 32;
    store<u64>(at, (text | eightZeros) >> (64 - 8 * count));
    return at + <usize>count;
  }

  /** The digits of a number of eight, a byte each, by halving all parts at once: first to 4, then to 2, then to 1 of them. */
  @inline static eightDigits(value: u32): u64 {
    const high = value / 10000;
    const fours = <u64>high | ((<u64>(value - high * 10000)) << 32);
    const hundreds = ((fours * 10486) >> 20) & 0x0000007f0000007f;
    const twos = hundreds | ((fours - hundreds * 100) << 16);
    const tens = ((twos * 103) >> 10) & 0x000f000f000f000f;
    return tens | ((twos - tens * 10) << 8);
  }

  /** The digits of eight numbers up to 99, two bytes each. */
  @inline static twoDigitsEach(numbers: v128): v128 {
    const tens = i16x8.shr_u(i16x8.mul(numbers, i16x8.splat(103)), 10);
    const units = i16x8.sub(numbers, i16x8.mul(tens, i16x8.splat(10)));
    return v128.or(v128.or(tens, i16x8.shl(units, 8)), i8x16.splat(<i8>zero));
  }

  /** The product with a power of ten, its last bit set if something is behind it. */
  @inline static scaled(high: u64, low: u64, factor: u64): u64 {
    const middle = ((high * factor) >> 1) + Inlined.highProduct(low, factor);
    return (Inlined.highProduct(high, factor) + (middle >> 63)) | (((middle & low63Bits) + low63Bits) >> 63);
  }

  /** The higher half of a product. */
  @inline static highProduct(a: u64, b: u64): u64 {
    const aLow = a & 0xffffffff;
    const aHigh = a >> 32;
    const bLow = b & 0xffffffff;
    const bHigh = b >> 32;
    const first = aHigh * bLow + ((aLow * bLow) >> 32);
    const second = aLow * bHigh + (first & 0xffffffff);
    return aHigh * bHigh + (first >> 32) + (second >> 32);
  }
}

/** Gives the position after the row, or, as no position is that small, a `Stop`. */
function writeRow(at: usize, start: usize, end: usize): usize {
  let to = at;
  let from = start;
  store<u8>(to++, bracketOpen);
  for (let column = kinds; column < kindsEnd; column++) {
    let length: usize = load<u8>(from++);
    if (length >= nullPrefix) {
      if (length === nullPrefix) {
        store<u64>(to, nullCell);
        to += nullBytes;
        continue;
      }
      if (length === prefix2) {
        length = load<u16>(from);
        from += 2;
      } else if (length === prefix3) {
        length = <usize>load<u32>(from) & largestPayload;
        from += 3;
      } else {
        return Stop.malformed;
      }
    }
    const cellEnd = from + length;
    if (cellEnd > end) return Stop.malformed;
    to = Inlined.writeCell(load<u8>(column), to, from, length);
    if (to === Stop.largeRow) return Stop.largeRow;
    store<u8>(to++, comma);
    from = cellEnd;
  }
  return from > end ? Stop.malformed : endRow(to);
}

/** The same for a row of the binary protocol. */
function writeBinaryRow(at: usize, start: usize, end: usize): usize {
  const columns = kindsEnd - kinds;
  const nulls = start + 1;
  let from = nulls + ((columns + nullBitsOffset + 7) >> 3);
  if (from > end || load<u8>(start) !== binaryRowHeader) return Stop.malformed;
  let to = at;
  store<u8>(to++, bracketOpen);
  for (let column: usize = 0; column < columns; column++) {
    const bit = column + nullBitsOffset;
    if (((load<u8>(nulls + (bit >> 3)) >> <u8>(bit & 7)) & 1) !== 0) {
      store<u64>(to, nullCell);
      to += nullBytes;
      continue;
    }
    const kind = load<u8>(kinds + column);
    const value: u32 = load<u16>(values + 2 * column);
    const type = <i32>(value & 0xff);
    if (type !== Value.string) {
      // Known before the value is written, so that the next one need not wait for that.
      const next = from + (type < Value.date ? load<u8>(valueSizes + type) : 1 + <usize>load<u8>(from));
      if (next > end) return Stop.malformed;
      const isQuoted = kind === Kind.quotedNumber;
      if (type >= Value.date) {
        to = type === Value.time ? writeTimeValue(value >> 8, to, from) : writeDateValue(value, kind, to, from);
      } else {
        store<u8>(to, quote);
        to += usize(isQuoted);
        if (type >= Value.float) {
          to = writeFloatValue(value, to, from);
        } else {
          const bits = load<u64>(from);
          const unused = 64 - ((<u64>load<u8>(valueSizes + type)) << 3);
          // There is a signed and an unsigned type of each size, the signed ones with odd numbers.
          const number: i64 = (type & 1) === 0 ? <i64>((bits << unused) >> unused) : <i64>(bits << unused) >> unused;
          const sign = (type & 1) === 0 ? 0 : number >> 63;
          store<u8>(to, minus);
          to = Inlined.writeUnsigned(to - <usize>sign, <u64>((number ^ sign) - sign));
        }
      }
      if (to <= <usize>Stop.malformed) return to;
      store<u16>(to, isQuoted ? quoteComma : comma);
      to += 1 + usize(isQuoted);
      from = next;
      continue;
    }
    let length: usize = load<u8>(from++);
    if (length >= nullPrefix) {
      if (length === prefix2) {
        length = load<u16>(from);
        from += 2;
      } else if (length === prefix3) {
        length = <usize>load<u32>(from) & largestPayload;
        from += 3;
      } else {
        return Stop.malformed;
      }
    }
    const cellEnd = from + length;
    if (cellEnd > end) return Stop.malformed;
    to = Inlined.writeCell(kind, to, from, length);
    if (to === Stop.largeRow) return Stop.largeRow;
    store<u8>(to++, comma);
    from = cellEnd;
  }
  return from > end ? Stop.malformed : endRow(to);
}

/** The bracket takes the place of the last comma. */
function endRow(at: usize): usize {
  const to = kindsEnd > kinds ? at - 1 : at;
  store<u8>(to, bracketClose);
  return to + 1;
}

function writeText(at: usize, start: usize, end: usize): usize {
  let to = at;
  let from = start;
  // Bytes from 0x80 on are special until the rest is known to be UTF-8; from then on they count as 0x7f, which is plain.
  let ceiling = i8x16.splat(-1);
  store<u8>(to++, quote);
  for (;;) {
    const left = end - from;
    const low = v128.load(from);
    const high = v128.load(from, blockBytes);
    v128.store(to, low);
    v128.store(to, high, blockBytes);
    let special = specialBits(v128.min<u8>(low, ceiling), v128.min<u8>(high, ceiling));
    if (left <= pieceBytes) {
      special &= firstBits(left);
      if (special === 0) {
        to += left;
        break;
      }
    } else if (special === 0) {
      from += pieceBytes;
      to += pieceBytes;
      continue;
    }
    const pieceEnd = from + min(left, pieceBytes);
    do {
      const plain = ctz(special);
      from += plain;
      to += plain;
      const byte = load<u8>(from);
      if (byte >= 0x80) break;
      to = writeEscape(to, byte);
      from++;
      v128.store(to, v128.load(from));
      v128.store(to, v128.load(from, blockBytes), blockBytes);
      special = (special >> plain) >> 1;
    } while (special !== 0);
    if (special === 0) {
      to += pieceEnd - from;
      from = pieceEnd;
    } else if (isUtf8(from, end)) {
      ceiling = i8x16.splat(0x7f);
    } else {
      to = writeBrokenText(to, from, end);
      break;
    }
  }
  store<u8>(to, quote);
  return to + 1;
}

/** A bit for each byte of a piece that does not stand for itself within a JSON string, or is not ASCII. */
function specialBits(low: v128, high: v128): u32 {
  return i8x16.bitmask(toEscape(low)) | (i8x16.bitmask(toEscape(high)) << 16);
}

function toEscape(block: v128): v128 {
  const marks = v128.or(i8x16.eq(block, i8x16.splat(<i8>quote)), i8x16.eq(block, i8x16.splat(<i8>backslash)));
  // Signed: from 0x80 on, bytes are less than 0x20 too.
  return v128.or(marks, i8x16.lt_s(block, i8x16.splat(0x20)));
}

/** The bits of the first bytes of a piece, which has 32. */
function firstBits(count: usize): u32 {
  return <u32>(((<u64>1) << count) - 1);
}

function writeEscape(to: usize, byte: u8): usize {
  const text = load<u64>(escapes + ((<usize>byte) << 3));
  store<u64>(to, text);
  return to + <usize>(text >> 56);
}

/**
 * Whether the bytes are UTF-8, by the look-up of each pair of bytes in three tables (J. Keiser and D. Lemire, "Validating
 * UTF-8 in less than one instruction per byte", 2021).
 */
function isUtf8(start: usize, end: usize): bool {
  let before = i8x16.splat(0);
  let errors = i8x16.splat(0);
  // As far as the byte after the last one, taken as 0, which shows a sequence that is cut off.
  for (let from = start; from <= end; from += blockBytes) {
    let block = v128.load(from);
    if (end - from < blockBytes) block = v128.and(block, i8x16.gt_s(i8x16.splat(<i8>(end - from)), positions));
    const previous = i8x16.shuffle(before, block, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30);
    const second = i8x16.shuffle(before, block, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29);
    const third = i8x16.shuffle(before, block, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28);
    const pairs = v128.and(
      v128.and(
        i8x16.swizzle(byFirstHigh, i8x16.shr_u(previous, 4)),
        i8x16.swizzle(byFirstLow, v128.and(previous, i8x16.splat(0x0f))),
      ),
      i8x16.swizzle(bySecondHigh, i8x16.shr_u(block, 4)),
    );
    // The third byte of a sequence, and the fourth, have to follow a continuation.
    const inLong = v128.or(i8x16.sub_sat_u(second, i8x16.splat(0x60)), i8x16.sub_sat_u(third, i8x16.splat(0x70)));
    errors = v128.or(errors, v128.xor(pairs, v128.and(inLong, i8x16.splat(<i8>0x80))));
    before = block;
  }
  return !v128.any_true(errors);
}

/** Text that is not all UTF-8, byte by byte: U+FFFD for each maximal part of a sequence. */
function writeBrokenText(at: usize, start: usize, end: usize): usize {
  invalid |= invalidText;
  let to = at;
  let from = start;
  while (from < end) {
    const byte = load<u8>(from);
    if (byte >= 0x80) {
      const length = sequenceLength(from, end);
      if (length > 0) {
        store<u32>(to, load<u32>(from));
        to += length;
        from += length;
      } else {
        store<u32>(to, replacement);
        to += 3;
        from -= length;
      }
    } else if (byte < 0x20 || byte === quote || byte === backslash) {
      to = writeEscape(to, byte);
      from++;
    } else {
      store<u8>(to++, byte);
      from++;
    }
  }
  return to;
}

/** As in cells.ts: the length of the UTF-8 sequence there, or, negative, the length of the broken part. */
function sequenceLength(from: usize, end: usize): i32 {
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

function writeNumber(at: usize, start: usize, end: usize): usize {
  const stop = writeDigits(at, start, end);
  return stop === 0 ? writeNoNumber(at, start, end) : stop;
}

function writeQuotedNumber(at: usize, start: usize, end: usize): usize {
  const stop = writeDigits(at + 1, start, end);
  if (stop === 0) return writeNoNumber(at, start, end);
  store<u8>(at, quote);
  store<u8>(stop, quote);
  return stop + 1;
}

function writeNoNumber(at: usize, start: usize, end: usize): usize {
  invalid |= invalidText;
  return writeText(at, start, end);
}

/** As in cells.ts: writes the cell as a JSON number, or gives 0 if it is not a number. */
function writeDigits(at: usize, start: usize, end: usize): usize {
  const stop = copyNumber(at, start, end);
  if (stop !== 0) return stop;
  let from = start;
  let to = at;
  // MySQL fills up a FLOAT ZEROFILL of -0 like that: 0000-0.
  while (from + 1 < end && load<u8>(from) === zero) from++;
  if (load<u8>(from) !== minus) from = start;
  if (from < end && (load<u8>(from) === minus || load<u8>(from) === plus)) {
    store<u8>(to, minus);
    to += usize(load<u8>(from) === minus);
    from++;
  }
  const wholeEnd = digitsEnd(from, end);
  const hasPoint = wholeEnd < end && load<u8>(wholeEnd) === point;
  const fraction = wholeEnd + usize(hasPoint);
  const fractionEnd = digitsEnd(fraction, end);
  if (wholeEnd === from && fractionEnd === fraction) return 0;
  while (from < wholeEnd && load<u8>(from) === zero) from++;
  if (from === wholeEnd) store<u8>(to++, zero);
  to = copyBytes(to, from, wholeEnd);
  if (fractionEnd > fraction) {
    store<u8>(to++, point);
    to = copyBytes(to, fraction, fractionEnd);
  }
  if (fractionEnd === end) return to;
  if ((load<u8>(fractionEnd) | 0x20) !== letterE) return 0;
  let power = fractionEnd + 1;
  if (power < end && (load<u8>(power) === minus || load<u8>(power) === plus)) power++;
  if (power === end || digitsEnd(power, end) !== end) return 0;
  return copyBytes(to, fractionEnd, end);
}

/** The same for a JSON number of up to 32 characters, which is most of them: copies it whole; gives 0 for anything else. */
function copyNumber(at: usize, start: usize, end: usize): usize {
  const length = end - start;
  if (length - 1 >= pieceBytes) return 0;
  const low = v128.load(start);
  const high = v128.load(start, blockBytes);
  const ours = firstBits(length);
  const digits = (i8x16.bitmask(toDigits(low)) | (i8x16.bitmask(toDigits(high)) << 16)) & ours;
  const marks = ~digits & ours;
  // Positions of the parts, counted from the start; a part that ends with the cell ends at `length`.
  const whole = u32(load<u8>(start) === minus);
  const wholeEnd = endOfDigits(marks, whole, <u32>length);
  if (wholeEnd === whole || (load<u8>(start + whole) === zero && wholeEnd > whole + 1)) return 0;
  let next = wholeEnd;
  if (next < <u32>length && load<u8>(start + next) === point) {
    const fractionEnd = endOfDigits(marks, next + 1, <u32>length);
    if (fractionEnd === next + 1) return 0;
    next = fractionEnd;
  }
  if (next < <u32>length) {
    if ((load<u8>(start + next) | 0x20) !== letterE) return 0;
    next++;
    if (next < <u32>length && (load<u8>(start + next) === minus || load<u8>(start + next) === plus)) next++;
    if (next >= <u32>length || endOfDigits(marks, next, <u32>length) !== <u32>length) return 0;
  }
  v128.store(at, low);
  v128.store(at, high, blockBytes);
  return at + length;
}

/** The first position from `from` on that is marked, or the length. */
function endOfDigits(marks: u32, from: u32, length: u32): u32 {
  return min(<u32>ctz(<u64>marks & (~(<u64>0) << from)), length);
}

/** A byte that is not 0 for each digit. */
function toDigits(block: v128): v128 {
  return i8x16.le_u(i8x16.sub(block, i8x16.splat(<i8>zero)), i8x16.splat(9));
}

function toPoints(block: v128): v128 {
  return i8x16.eq(block, i8x16.splat(<i8>point));
}

/** The first position from `from` on that is not a digit's. */
function digitsEnd(from: usize, end: usize): usize {
  let to = from;
  while (to < end && isDigit(load<u8>(to))) to++;
  return to;
}

function copyBytes(at: usize, start: usize, end: usize): usize {
  for (let from = start; from < end; from += blockBytes) v128.store(at + (from - start), v128.load(from));
  return at + (end - start);
}

function isDigit(byte: u8): bool {
  return <u32>byte - zero <= 9;
}

function areDigits(start: usize, end: usize): bool {
  for (let from = start; from < end; from++) if (!isDigit(load<u8>(from))) return false;
  return end > start;
}

function writeHex(at: usize, start: usize, end: usize): usize {
  let to = at;
  store<u8>(to++, quote);
  for (let from = start; from < end; from += blockBytes) {
    const block = v128.load(from);
    const high = i8x16.swizzle(hexDigits, i8x16.shr_u(block, 4));
    const low = i8x16.swizzle(hexDigits, v128.and(block, i8x16.splat(0x0f)));
    v128.store(to, i8x16.shuffle(high, low, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23));
    v128.store(to, i8x16.shuffle(high, low, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31), blockBytes);
    to += 2 * min(blockBytes, end - from);
  }
  store<u8>(to, quote);
  return to + 1;
}

/** A JSON document is copied as the database wrote it; what cannot be one is written as text instead. */
function writeJson(at: usize, start: usize, end: usize): usize {
  let unicode: u32 = 0;
  for (let from = start; from < end; from += blockBytes) {
    const block = v128.load(from);
    v128.store(at + (from - start), block);
    const ours = firstBits(min(end - from, blockBytes));
    if ((i8x16.bitmask(i8x16.le_u(block, i8x16.splat(0x1f))) & ours) !== 0) return writeNoJson(at, start, end);
    unicode |= i8x16.bitmask(block) & ours;
  }
  // Most documents are objects.
  if (start === end || (load<u8>(start) !== braceOpen && !beginsJson(start, end))) return writeNoJson(at, start, end);
  if (unicode !== 0 && !isUtf8(start, end)) return writeNoJson(at, start, end);
  return at + (end - start);
}

function writeNoJson(at: usize, start: usize, end: usize): usize {
  invalid |= invalidJson;
  return writeText(at, start, end);
}

/** As in cells.ts, of what is no object. */
function beginsJson(start: usize, end: usize): bool {
  const first = load<u8>(start);
  if (first !== quote) {
    return (
      first === bracketOpen ||
      isDigit(first) ||
      first === minus ||
      first === letterT ||
      first === letterF ||
      first === letterN
    );
  }
  for (let from = start + 1; from < end; from++) {
    const byte = load<u8>(from);
    if (byte === quote) return from === end - 1;
    from += usize(byte === backslash);
  }
  return false;
}

/** Text, but for a month or a day of 00 NULL, and behind the seconds of a timestamp six digits of a fraction. */
function writeDate(kind: u8, at: usize, start: usize, end: usize): usize {
  const length = end - start;
  if (length >= dateLength) {
    if (load<u16>(start, monthOffset) === twoZeros || load<u16>(start, dayOffset) === twoZeros) {
      store<u64>(at, nullCell);
      // The comma comes later.
      return at + nullBytes - 1;
    }
  }
  const low = v128.load(start);
  const high = v128.load(start, blockBytes);
  let to: usize;
  if (length <= pieceBytes && (specialBits(low, high) & firstBits(length)) === 0) {
    store<u8>(at, quote);
    v128.store(at, low, 1);
    v128.store(at, high, 1 + blockBytes);
    to = at + 1 + length;
  } else {
    to = writeText(at, start, end) - 1;
  }
  if (kind === Kind.timestamp && length >= secondsLength && length < microsecondsLength) {
    store<u64>(to, length === secondsLength ? pointZeros : sixZeros);
    to += microsecondsLength - length;
  }
  store<u8>(to, quote);
  return to + 1;
}

/** Gives `Stop.largeRow` if there are more than 64 bits. */
function writeBitCell(kind: u8, at: usize, start: usize, end: usize): usize {
  const isQuoted = <i32>kind >= Kind.quotedBits;
  if ((kind === Kind.bitsOrDigits || kind === Kind.quotedBitsOrDigits) && areDigits(start, end)) {
    return isQuoted ? writeQuotedNumber(at, start, end) : writeNumber(at, start, end);
  }
  let from = start;
  while (from < end && load<u8>(from) === 0) from++;
  if (end - from > 8) return Stop.largeRow;
  if (!isQuoted) return writeBits(at, from, end);
  store<u8>(at, quote);
  const to = writeBits(at + 1, from, end);
  store<u8>(to, quote);
  return to + 1;
}

/** Up to eight bytes. */
function writeBits(at: usize, start: usize, end: usize): usize {
  let value: u64 = 0;
  for (let from = start; from < end; from++) value = (value << 8) | load<u8>(from);
  return Inlined.writeUnsigned(at, value);
}

/** A number of more than eight digits. */
function writeLargeUnsigned(at: usize, value: u64): usize {
  const high = value / 100000000;
  let to: usize;
  if (high < 100000000) {
    to = Inlined.writeLeadingDigits(at, <u32>high);
  } else {
    const highest = high / 100000000;
    to = Inlined.writeLeadingDigits(at, <u32>highest);
    store<u64>(to, Inlined.eightDigits(<u32>(high - highest * 100000000)) | eightZeros);
    to += 8;
  }
  store<u64>(to, Inlined.eightDigits(<u32>(value - high * 100000000)) | eightZeros);
  return to + 8;
}

/** A date of both kinds of columns, with the time of day if it has one; gives `Stop.malformed` for one that cannot be. */
function writeDateValue(value: u32, kind: u8, at: usize, from: usize): usize {
  const length: u32 = load<u8>(from);
  if (length > 11 || ((dateLengths >> length) & 1) === 0) return Stop.malformed;
  const isDate = (value & 0xff) === Value.date;
  const shown: u32 = min(length, isDate ? 4 : 7);
  // Century, year, month, day, hour, minute and second, as far as they are there: the year's two bytes are two places too.
  const parts = v128.and(v128.load8x8_u(from, 1), i16x8.lt_u(i16x8(0, 1, 2, 3, 4, 5, 6, 7), i16x8.splat(<i16>shown)));
  const year = <u32>i16x8.extract_lane_u(parts, 0) | ((<u32>i16x8.extract_lane_u(parts, 1)) << 8);
  const century = year / 100;
  const numbers = i16x8.replace_lane(i16x8.replace_lane(parts, 0, <i16>century), 1, <i16>(year - century * 100));
  if (v128.any_true(i16x8.gt_u(numbers, i16x8.splat(99)))) return Stop.malformed;
  if (<i32>kind >= Kind.date) {
    if (i16x8.extract_lane_u(parts, 2) === 0 || i16x8.extract_lane_u(parts, 3) === 0) {
      // A second has no more than that, even here.
      if (!isDate && length === 11 && load<u32>(from, 8) > microsecondsMax) return Stop.malformed;
      store<u64>(at, nullCell);
      return at + nullBytes - 1;
    }
  }
  const text = Inlined.twoDigitsEach(numbers);
  store<u8>(at, quote);
  v128.store(at, v128.or(i8x16.swizzle(text, datePlaces), dateMarks), 1);
  let to = at + 1 + dateLength;
  if (!isDate) {
    store<u8>(at, colon, 1 + minutesLength);
    store<u16>(at, i16x8.extract_lane_u(text, 6), 2 + minutesLength);
    const microseconds: u32 = length === 11 ? load<u32>(from, 8) : 0;
    to = writeFraction(at + 1 + secondsLength, microseconds, value >> 8, kind === Kind.timestamp);
    if (to === 0) return Stop.malformed;
  }
  store<u8>(to, quote);
  return to + 1;
}

/** Gives `Stop.malformed` for a time that cannot be. */
function writeTimeValue(decimals: u32, at: usize, from: usize): usize {
  const length: u32 = load<u8>(from);
  if (length !== 0 && length !== 8 && length !== 12) return Stop.malformed;
  let to = at;
  store<u8>(to++, quote);
  // Hours, minutes and seconds; the hours of more than two digits are written before the last two.
  let numbers = i16x8.splat(0);
  if (length !== 0) {
    if (load<u8>(from, 1) !== 0) store<u8>(to++, minus);
    numbers = v128.and(v128.load8x8_u(from, 6), i16x8(-1, -1, -1, 0, 0, 0, 0, 0));
    if (load<u32>(from, 2) > 0 || load<u8>(from, 6) > 99) {
      const hours = <u64>load<u32>(from, 2) * 24 + load<u8>(from, 6);
      const hundreds = hours / 100;
      if (hundreds > 0) to = Inlined.writeUnsigned(to, hundreds);
      numbers = i16x8.replace_lane(numbers, 0, <i16>(hours - hundreds * 100));
    }
    if (v128.any_true(i16x8.gt_u(numbers, i16x8.splat(99)))) return Stop.malformed;
  }
  v128.store(to, v128.or(i8x16.swizzle(Inlined.twoDigitsEach(numbers), timePlaces), timeMarks));
  to = writeFraction(to + timeLength, length === 12 ? load<u32>(from, 9) : 0, decimals, false);
  if (to === 0) return Stop.malformed;
  store<u8>(to, quote);
  return to + 1;
}

/**
 * The fraction of a second: as many digits as the column has decimals, and if all are wanted zeros behind them. Gives 0 if
 * there cannot be so many microseconds.
 */
function writeFraction(at: usize, microseconds: u32, decimals: u32, wantsAll: bool): usize {
  if (microseconds > microsecondsMax) return 0;
  // What has no fixed decimals shows its microseconds if there are any.
  let count = decimals <= fractionDigitsMax ? decimals : microseconds === 0 ? 0 : fractionDigitsMax;
  let shown = microseconds;
  if (wantsAll && count < fractionDigitsMax) {
    shown -= shown % <u32>load<u64>(smallPowers + 8 * <usize>(fractionDigitsMax - count));
    count = fractionDigitsMax;
  }
  if (count === 0) return at;
  store<u8>(at, point);
  store<u64>(at, (Inlined.eightDigits(shown) | eightZeros) >> 16, 1);
  return at + 1 + count;
}

/** As `floatText` in binary-values.ts. */
function writeFloatValue(value: u32, at: usize, from: usize): usize {
  const isFloat = (value & 0xff) === Value.float;
  const signed = isFloat ? <f64>load<f32>(from) : load<f64>(from);
  const number = abs(signed);
  if (!(number < Infinity)) {
    store<u8>(at, zero);
    return at + 1;
  }
  store<u8>(at, minus);
  const to = at + <usize>(reinterpret<u64>(signed) >> 63);
  const decimals = <i32>(value >> 8);
  if (decimals < decimalsNotFixed) {
    if (decimals <= plainDecimals && number < wholeLimit) {
      const scaled = number * load<f64>(exactPowers + 8 * <usize>decimals);
      const nearest = floor(scaled + 0.5);
      if (scaled < scaledLimit && abs(scaled - nearest) < tieFrom) return writePlainFixed(to, <u64>nearest, decimals);
    }
    setDigits(reinterpret<u64>(number), true);
    return writeFixed(to, decimals);
  }
  const limit = isFloat ? floatWholeMax : wholeMax;
  if (number < limit && number === floor(number)) return Inlined.writeUnsigned(to, <u64>number);
  if (isFloat) {
    if (number < floatWholeMax && number >= plainFloatMin) {
      // The decimals that leave six digits.
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
        return writePlain(to, <u64>nearest * load<u64>(smallPowers + 8 * <usize>(plainDecimals - count)));
      }
    }
    setDigits(reinterpret<u64>(number), false);
    // So far there are 16 or 17 digits, of which 6 are to be left.
    roundDigits(quadruple < 40000000000000000 ? 10 : 11);
    return writeGeneral(to);
  }
  if (number < wholeLimit && number >= plainDoubleMin) {
    // Of the numbers of up to 15 digits only one is read back as this double, so there is no shorter one.
    const isSmall = number < 1e7;
    const power: f64 = isSmall ? 1e8 : 1e6;
    const nearest = floor(number * power + 0.5);
    if (nearest / power === number) return writePlain(to, <u64>nearest * (isSmall ? 1 : 100));
  }
  setDigits(reinterpret<u64>(number), true);
  return writeGeneral(to);
}

/** Writes what is given times 10^-8, without zeros at the end; there is something behind the point. */
function writePlain(at: usize, value: u64): usize {
  const whole = value / 100000000;
  const to = Inlined.writeUnsigned(at, whole);
  const text = Inlined.eightDigits(<u32>(value - whole * 100000000));
  store<u8>(to, point);
  store<u64>(to, text | eightZeros, 1);
  // A zero's byte is 0 so far. What has been rounded to a whole number loses the point as well.
  const count = <usize>((71 - clz(text)) >> 3);
  return to + count + usize(count > 0);
}

/** Writes what is given times 10^-decimals, of which there are up to 8. */
function writePlainFixed(at: usize, value: u64, decimals: i32): usize {
  const power = load<u64>(smallPowers + 8 * <usize>decimals);
  const whole = value / power;
  const to = Inlined.writeUnsigned(at, whole);
  if (decimals === 0) return to;
  const rest = (value - whole * power) * load<u64>(smallPowers + 8 * <usize>(plainDecimals - decimals));
  store<u8>(to, point);
  store<u64>(to, Inlined.eightDigits(<u32>rest) | eightZeros, 1);
  return to + 1 + <usize>decimals;
}

/**
 * Sets `digits`, `exponent` and `quadruple` for a double. The digits are the shortest that are read back as it, and of these
 * the nearest; or, if those are not wanted, there are 16 or 17 of them in `quadruple` alone. The method is "Schubfach"
 * (R. Giulietti, "The Schubfach way to render doubles", 2021).
 */
function setDigits(bits: u64, wantsShortest: bool): void {
  const fraction = bits & (((<u64>1) << fractionBits) - 1);
  const biased = <i32>(bits >> fractionBits);
  const significand = biased === 0 ? fraction : fraction | ((<u64>1) << fractionBits);
  const binaryExponent = max(biased, 1) - exponentBias;
  // Below a power of two, numbers lie twice as close.
  const isPowerOfTwo = fraction === 0 && biased > 1;
  // Logarithms of 2 and 3/4 to the base of 10, times 2^41, and of 10 to the base of 2, times 2^38.
  const closer: i64 = isPowerOfTwo ? -274743187321 : 0;
  exponent = <i32>((<i64>binaryExponent * 661971961083 + closer) >> 41);
  const shift = <u64>(binaryExponent + <i32>((<i64>-exponent * 913124641741) >> 38) + 2);
  const power = powers + 16 * <usize>(-exponent - powerMin);
  const high = load<u64>(power);
  const low = load<u64>(power, 8);
  const number = significand << 2;
  quadruple = Inlined.scaled(high, low, number << shift);
  if (!wantsShortest) return;

  // An even significand is what its bounds are read as.
  const odd = significand & 1;
  const lower = Inlined.scaled(high, low, (number - (isPowerOfTwo ? 1 : 2)) << shift) + odd;
  const upper = Inlined.scaled(high, low, (number + 2) << shift) - odd;
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
  const beyond = quadruple & 3;
  digits = beyond < 2 || (beyond === 2 && (floored & 1) === 0) ? floored : floored + 1;
}

/** Takes so many digits from `quadruple`, and sets `digits` to what is left: the nearest, and from a tie the even one. */
function roundDigits(count: i32): void {
  exponent += count;
  digits = 0;
  // Then even the first digit counts for less than a half.
  if (count > smallPowerMax) return;
  const unit = load<u64>(smallPowers + 8 * <usize>count) << 2;
  const kept = quadruple / unit;
  const rest = quadruple - kept * unit;
  digits = kept + u64(rest > unit >> 1 || (rest === unit >> 1 && (kept & 1) !== 0));
}

/** Sets `digitText`, `digitCount` and `pointAt`. */
function setDigitText(): void {
  const end = Inlined.writeUnsigned(digitText, digits);
  const zeros = i8x16.splat(<i8>zero);
  v128.store(end, zeros);
  v128.store(end, zeros, blockBytes);
  const all = end - digitText;
  const others =
    ~(
      i8x16.bitmask(i8x16.eq(v128.load(digitText), zeros)) |
      (i8x16.bitmask(i8x16.eq(v128.load(digitText, blockBytes), zeros)) << 16)
    ) & firstBits(all);
  digitCount = max(1, 32 - <i32>clz(others));
  pointAt = <i32>all + exponent;
}

/** With an exponent where the point would stand far from the digits. */
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
    return Inlined.writeUnsigned(to, <u64>abs(pointAt - 1));
  }
  if (pointAt <= 0) {
    v128.store(at, i8x16.splat(<i8>zero));
    store<u8>(at, point, 1);
    const to = at + 2 + <usize>-pointAt;
    v128.store(to, v128.load(digitText));
    store<u8>(to, load<u8>(digitText, blockBytes), blockBytes);
    return to + count;
  }
  const whole = <usize>pointAt;
  v128.store(at, v128.load(digitText));
  if (count <= whole) return at + whole;
  store<u8>(at + whole, point);
  v128.store(at + whole, v128.load(digitText + whole), 1);
  return at + count + 1;
}

/** With so many decimals. */
function writeFixed(at: usize, decimals: i32): usize {
  const cut = -decimals - exponent;
  if (cut > smallPowerMax || (cut > 0 && digits % load<u64>(smallPowers + 8 * <usize>cut) !== 0)) roundDigits(cut);
  setDigitText();
  let to = at;
  // The digit of a place, ten to that power, counted from 1 for the units.
  for (let place = max(pointAt, 1); place > -decimals; place--) {
    if (place === 0) store<u8>(to++, point);
    const index = pointAt - place;
    store<u8>(to++, index >= 0 && index < digitCount ? load<u8>(digitText + <usize>index) : zero);
  }
  return to;
}

for (let bits: u64 = 0, count: u64 = 1, power: u64 = 10; bits < 32; bits++) {
  // Numbers of that many bits have this many digits, and from the power on that is among them one more.
  const first = (<u64>1) << bits;
  if (first >= power) {
    power *= 10;
    count++;
  }
  const hasPower = power <= 2 * first - 1;
  store<u64>(digitCounts + 8 * <usize>bits, hasPower ? ((count + 1) << 32) - power : count << 32);
}

for (let power = 0, value: u64 = 1; power <= smallPowerMax; power++, value *= 10) {
  store<u64>(smallPowers + 8 * <usize>power, value);
  store<f64>(exactPowers + 8 * <usize>power, <f64>value);
}

for (let code: u64 = 0; code < 0x20; code++) {
  const last = code & 15;
  setEscape(<u8>code, 0x3030755c | ((zero + (code >> 4)) << 32) | ((last < 10 ? zero + last : 0x57 + last) << 40), 6);
}
setEscape(0x08, 0x625c, 2);
setEscape(0x09, 0x745c, 2);
setEscape(0x0a, 0x6e5c, 2);
setEscape(0x0c, 0x665c, 2);
setEscape(0x0d, 0x725c, 2);
setEscape(quote, 0x225c, 2);
setEscape(backslash, 0x5c5c, 2);

function setEscape(code: u8, text: u64, length: u64): void {
  store<u64>(escapes + ((<usize>code) << 3), text | (length << 56));
}
