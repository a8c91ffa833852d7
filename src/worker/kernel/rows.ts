// The packet-to-JSON loop in AssemblyScript, compiled to WebAssembly with SIMD. src/worker/cells.ts says what the JSON of
// a cell is; this says the same, 32 bytes at a time. Nothing is allocated: `at`, `from`, `to` and the like are addresses.
// A piece is loaded and stored whole, whatever part of it is wanted: what a store writes beyond that is overwritten by
// what comes next, and behind each region there is padding.

import { cellPieceBytes, columnsMax, headroomBytes, outputBytes, readBytes, rowsRoom } from './sizes';

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

/** What has been set by `setFormat`: where the kinds end, and NULL with a comma behind it, which takes so many bytes. */
let kindsEnd: usize = 0;
let nullCell: u64 = 0;
let nullBytes: usize = 0;

/** For each byte of ASCII that JSON escapes: up to seven bytes of text, and in the eighth their number. */
const escapes: usize = memory.data(8 * 0x60, 8);

/** Of a number of 64 bits. */
const digitsMax: usize = 20;

const headerBytes: usize = 4;
const largestPayload: usize = 0xffffff;
const errorHeader: u8 = 0xff;
const eofHeader: u8 = 0xfe;
/** A packet that begins with 0xfe is the end of the rows if it is shorter than this; else it is a row of a long cell. */
const eofBytesMax: usize = 9;
const nullPrefix: usize = 0xfb;
const prefix2: usize = 0xfc;
const prefix3: usize = 0xfd;

const quote: u8 = 0x22;
const comma: u8 = 0x2c;
const minus: u8 = 0x2d;
const zero: u8 = 0x30;
const bracketOpen: u8 = 0x5b;
const backslash: u8 = 0x5c;
const bracketClose: u8 = 0x5d;
const nullComma: u64 = 0x2c6c6c756e;
const nullTextComma: u64 = 0x2c224c4c554e22;
const replacement = 0xbdbfef;

const dateLength: usize = 10;
const monthOffset: usize = 5;
const dayOffset: usize = 8;
/** Of a timestamp without a fraction of a second, and of one with all of it. */
const secondsLength: usize = 19;
const microsecondsLength: usize = 26;
const twoZeros: u16 = 0x3030;
const sixZeros: u64 = 0x303030303030;
const pointZeros: u64 = 0x3030303030302e;

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

/** Sets what rows are from now on; before, the kinds have been written to `kinds`. */
export function setFormat(columns: i32, nullsAreText: bool): void {
  kindsEnd = kinds + columns;
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
  const overhead = (kindsEnd - kinds) * cellOverheadMax + 2;
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
    const rowStop = writeRow(rowStart, from, end);
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
    const kind = load<u8>(column);
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
      const others = ~numericBits(low, high) & firstBits(length);
      // Not the empty one either.
      if (length - 1 < pieceBytes && (others | leadingZero(from)) === 0) {
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
      const others = ~numericBits(low, high) & firstBits(length);
      if (length - 1 < pieceBytes && (others | leadingZero(from)) === 0) {
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
      if (to === Stop.largeRow) return Stop.largeRow;
    }
    store<u8>(to++, comma);
    from = cellEnd;
  }
  if (from > end) return Stop.malformed;
  // The bracket takes the place of the last comma.
  if (kindsEnd > kinds) to--;
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

/**
 * 1 if the number may begin with a zero that JSON forbids, seen from three bytes, which may be another cell's. There are
 * no branches, as signs and zeros come as they like.
 */
function leadingZero(from: usize): u32 {
  const digits = from + usize(load<u8>(from) === minus);
  return u32(load<u8>(digits) === zero) & u32(isDigit(load<u8>(digits, 1)));
}

function writeNumber(at: usize, start: usize, end: usize): usize {
  const stop = writeDigits(at, start, end);
  return stop === 0 ? writeText(at, start, end) : stop;
}

function writeQuotedNumber(at: usize, start: usize, end: usize): usize {
  const stop = writeDigits(at + 1, start, end);
  if (stop === 0) return writeText(at, start, end);
  store<u8>(at, quote);
  store<u8>(stop, quote);
  return stop + 1;
}

/** Gives 0 if the cell has a byte that no number has, or none at all. */
function writeDigits(at: usize, start: usize, end: usize): usize {
  if (start === end) return 0;
  let to = at;
  let from = start;
  if (load<u8>(from) === minus) {
    store<u8>(to++, minus);
    from++;
  }
  while (from + 1 < end && load<u8>(from) === zero && isDigit(load<u8>(from, 1))) from++;
  while (from < end) {
    const taken = min(end - from, pieceBytes);
    const low = v128.load(from);
    const high = v128.load(from, blockBytes);
    v128.store(to, low);
    v128.store(to, high, blockBytes);
    if ((~numericBits(low, high) & firstBits(taken)) !== 0) return 0;
    to += taken;
    from += taken;
  }
  return to;
}

/** A bit for each byte of a piece that may be part of a JSON number. */
function numericBits(low: v128, high: v128): u32 {
  return i8x16.bitmask(numeric(low)) | (i8x16.bitmask(numeric(high)) << 16);
}

function numeric(block: v128): v128 {
  const digits = i8x16.le_u(i8x16.sub(block, i8x16.splat(<i8>zero)), i8x16.splat(9));
  // `+`, `-` and `.`, then `E` and `e`, which differ in one bit.
  const marks = i8x16.le_u(i8x16.sub(block, i8x16.splat(0x2b)), i8x16.splat(3));
  const exponents = i8x16.eq(v128.or(block, i8x16.splat(0x20)), i8x16.splat(0x65));
  return v128.or(v128.or(digits, exponents), v128.andnot(marks, i8x16.eq(block, i8x16.splat(<i8>comma))));
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
    if ((i8x16.bitmask(i8x16.le_u(block, i8x16.splat(0x1f))) & ours) !== 0) return writeText(at, start, end);
    unicode |= i8x16.bitmask(block) & ours;
  }
  if (start === end || (unicode !== 0 && !isUtf8(start, end))) return writeText(at, start, end);
  return at + (end - start);
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
  let to = writeText(at, start, end) - 1;
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
  const digitsEnd = at + digitsMax;
  let to = digitsEnd;
  do {
    const rest = value / 10;
    store<u8>(--to, zero + <u8>(value - rest * 10));
    value = rest;
  } while (value !== 0);
  const low = v128.load(to);
  const high = v128.load(to, blockBytes);
  v128.store(at, low);
  v128.store(at, high, blockBytes);
  return at + (digitsEnd - to);
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
