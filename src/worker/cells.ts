import type { CellFormat } from '../wire/statement.ts';

/**
 * How each kind of cell is written as JSON, straight from the bytes of MySQL's text protocol. Every function takes the
 * target and the position in it, the source and the range of the cell, and returns the new position. The caller
 * has made sure that the target has room: `cellGrowthMax` and `cellOverheadMax` tell how much a cell may need.
 */

/** How a cell's bytes become JSON. */
export const cellKind = {
  /** A number in JSON's grammar: see `writeDigits`. */
  number: 0,
  /** Text, quoted and escaped, with bytes that are not UTF-8 replaced. */
  text: 1,
  /** Bytes, quoted, as upper-case hex. */
  hex: 2,
  /** A JSON document of the database's, copied. */
  json: 3,
  /** Up to eight bytes, big-endian, as a decimal number. */
  bits: 4,
  /**
   * The same, or decimal digits as ASCII, whichever the server chose without saying so. Bytes that are all digits are
   * taken as digits: that is wrong only for a value like 0x35 of which the server sent bytes.
   */
  bitsOrDigits: 5,
  /** As `number`, in quotes. */
  quotedNumber: 6,
  /** As `bits`, in quotes. */
  quotedBits: 7,
  /** As `bitsOrDigits`, in quotes. */
  quotedBitsOrDigits: 8,
  /** `YYYY-MM-DD`, quoted; NULL if the month or the day is 00. */
  date: 9,
  /** `YYYY-MM-DD hh:mm:ss[.f]`, quoted, with six digits of a fraction whatever came; NULL as a `date` is. */
  timestamp: 10,
} as const;

export type CellKind = (typeof cellKind)[keyof typeof cellKind];

/** What the database should not have sent; a bit each. */
export const invalidCell = {
  /** A text that is not UTF-8, or a number that is none. The database itself cuts texts within a character now and then. */
  text: 1,
  /** A JSON document that is none. */
  json: 2,
} as const;

let invalid = 0;

/** What was found since the last call of this: bits of `invalidCell`. */
export function takeInvalid(): number {
  const found = invalid;
  invalid = 0;
  return found;
}

/** NULL as JSON. */
const nullLiteral = Buffer.from('null');
/** NULL where even that is a string. */
const nullText = Buffer.from('"NULL"');

/** What NULL is written as. */
export function nullCell(cells: CellFormat): Uint8Array {
  return cells === 'strings, NULL too' ? nullText : nullLiteral;
}

/** The most that one byte of a cell can grow to: `\u0000`. */
export const cellGrowthMax = 6;
/** What a cell may need besides: quotes, a comma, and the twenty digits of a 64-bit BIT. */
export const cellOverheadMax = 24;

const dateLength = 'YYYY-MM-DD'.length;
const monthOffset = 'YYYY-'.length;
const dayOffset = 'YYYY-MM-'.length;
const secondsLength = 'YYYY-MM-DD hh:mm:ss'.length;
const microsecondsLength = 'YYYY-MM-DD hh:mm:ss.ffffff'.length;
const fractionOfZero = Buffer.from('.000000');

const quote = 0x22;
const backslash = 0x5c;
const zero = 0x30;
const plus = 0x2b;
const minus = 0x2d;
const point = 0x2e;
const letterE = 0x65;

/** For each byte: 1 if it stands for itself within a JSON string. */
const plain = new Uint8Array(256).fill(1, 0x20, 0x80);
plain[quote] = 0;
plain[backslash] = 0;

/** For each byte: 1 if it begins a JSON document other than a string. */
const jsonStart = new Uint8Array(256);
for (const character of '{[-0123456789tfn') jsonStart[character.charCodeAt(0)] = 1;

/** For each control character: the letter of its short escape, or 0 if it has none. */
const shortEscape = new Uint8Array(256);
for (const [code, letter] of [
  [0x08, 'b'],
  [0x09, 't'],
  [0x0a, 'n'],
  [0x0c, 'f'],
  [0x0d, 'r'],
  [quote, '"'],
  [backslash, '\\'],
] as const) {
  shortEscape[code] = letter.charCodeAt(0);
}

const upperHex = Uint8Array.from('0123456789ABCDEF', (digit) => digit.charCodeAt(0));
const lowerHex = Uint8Array.from('0123456789abcdef', (digit) => digit.charCodeAt(0));

/** @param nullBytes what a date that is none is written as (see `nullCell`) */
export function writeCell(
  kind: number,
  out: Uint8Array,
  at: number,
  source: Uint8Array,
  start: number,
  end: number,
  nullBytes: Uint8Array,
): number {
  switch (kind) {
    case cellKind.number:
      return writeNumber(out, at, source, start, end);
    case cellKind.hex: {
      out[at] = quote;
      const stop = writeHex(out, at + 1, source, start, end);
      out[stop] = quote;
      return stop + 1;
    }
    case cellKind.json:
      return writeJson(out, at, source, start, end);
    case cellKind.bits:
      return writeBits(out, at, source, start, end);
    case cellKind.bitsOrDigits:
      return (areDigits(source, start, end) ? writeNumber : writeBits)(out, at, source, start, end);
    case cellKind.quotedNumber:
      return writeQuotedNumber(out, at, source, start, end);
    case cellKind.quotedBits:
      return writeQuotedBits(out, at, source, start, end);
    case cellKind.quotedBitsOrDigits:
      return (areDigits(source, start, end) ? writeQuotedNumber : writeQuotedBits)(out, at, source, start, end);
    case cellKind.date:
    case cellKind.timestamp: {
      if (isZeroDate(source, start, end)) {
        out.set(nullBytes, at);
        return at + nullBytes.length;
      }
      out[at] = quote;
      let stop = writeText(out, at + 1, source, start, end);
      if (kind === cellKind.timestamp) stop = writeFractionRest(out, stop, end - start);
      out[stop] = quote;
      return stop + 1;
    }
    default:
      return writeQuotedText(out, at, source, start, end);
  }
}

function writeQuotedText(out: Uint8Array, at: number, source: Uint8Array, start: number, end: number): number {
  out[at] = quote;
  const stop = writeText(out, at + 1, source, start, end);
  out[stop] = quote;
  return stop + 1;
}

function writeInvalid(
  what: number,
  out: Uint8Array,
  at: number,
  source: Uint8Array,
  start: number,
  end: number,
): number {
  invalid |= what;
  return writeQuotedText(out, at, source, start, end);
}

/** A number that is none (a float's "inf", or digits in a character set of two bytes each) must not break the JSON. */
function writeNumber(out: Uint8Array, at: number, source: Uint8Array, start: number, end: number): number {
  const stop = writeDigits(out, at, source, start, end);
  return stop < 0 ? writeInvalid(invalidCell.text, out, at, source, start, end) : stop;
}

function writeQuotedNumber(out: Uint8Array, at: number, source: Uint8Array, start: number, end: number): number {
  const stop = writeDigits(out, at + 1, source, start, end);
  if (stop < 0) return writeInvalid(invalidCell.text, out, at, source, start, end);
  out[at] = out[stop] = quote;
  return stop + 1;
}

/**
 * Writes the cell as a JSON number (RFC 8259, section 6). A number that is one already is copied byte for byte. Both servers also
 * print numbers that are none: leading zeros are left out (ZEROFILL, YEAR 0000; MySQL prints a FLOAT ZEROFILL of -0 as 0000-0),
 * and so are a leading plus and a point without digits behind it (MariaDB prints a DOUBLE without decimals as `0.` or `-0.`);
 * a zero is put before a leading point.
 * @returns -1 if the cell is not a number: it has another byte, or a part of it has no digits
 */
function writeDigits(out: Uint8Array, at: number, source: Uint8Array, start: number, end: number): number {
  let to = at;
  const copy = (from: number, stop: number): void => {
    for (let index = from; index < stop; index++) out[to++] = source[index] as number;
  };
  let from = start;
  while (from < end - 1 && source[from] === zero) from++;
  if (source[from] !== minus) from = start;
  if (from < end && (source[from] === minus || source[from] === plus)) {
    if (source[from] === minus) out[to++] = minus;
    from++;
  }
  const wholeEnd = digitsEnd(source, from, end);
  const fraction = wholeEnd < end && source[wholeEnd] === point ? wholeEnd + 1 : wholeEnd;
  const fractionEnd = digitsEnd(source, fraction, end);
  if (wholeEnd === from && fractionEnd === fraction) return -1;
  while (from < wholeEnd && source[from] === zero) from++;
  if (from === wholeEnd) out[to++] = zero;
  copy(from, wholeEnd);
  if (fractionEnd > fraction) {
    out[to++] = point;
    copy(fraction, fractionEnd);
  }
  if (fractionEnd === end) return to;
  if (((source[fractionEnd] as number) | 0x20) !== letterE) return -1;
  let power = fractionEnd + 1;
  if (power < end && (source[power] === minus || source[power] === plus)) power++;
  if (power === end || digitsEnd(source, power, end) !== end) return -1;
  copy(fractionEnd, end);
  return to;
}

/** The first position from `from` on that is not a digit's. */
function digitsEnd(source: Uint8Array, from: number, end: number): number {
  let to = from;
  while (to < end && isDigit(source[to])) to++;
  return to;
}

/** Whether the month or the day is 00, as it is in "0000-00-00" and "2024-01-00". */
function isZeroDate(source: Uint8Array, start: number, end: number): boolean {
  if (end - start < dateLength) return false;
  const isZero = (at: number): boolean => source[at] === zero && source[at + 1] === zero;
  return isZero(start + monthOffset) || isZero(start + dayOffset);
}

/** What a timestamp of that length lacks of six digits behind the point. */
function writeFractionRest(out: Uint8Array, at: number, length: number): number {
  if (length < secondsLength || length >= microsecondsLength) return at;
  const rest = fractionOfZero.subarray(length - secondsLength);
  out.set(rest, at);
  return at + rest.length;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= zero && byte <= zero + 9;
}

function areDigits(source: Uint8Array, start: number, end: number): boolean {
  for (let from = start; from < end; from++) if (!isDigit(source[from])) return false;
  return end > start;
}

/**
 * The text between the quotes. Escapes are those of `JSON.stringify`; what is not UTF-8 becomes U+FFFD, one for each
 * maximal part of a sequence, as the WHATWG Encoding Standard's decoder has it.
 */
export function writeText(out: Uint8Array, at: number, source: Uint8Array, start: number, end: number): number {
  let to = at;
  let from = start;
  while (from < end) {
    const byte = source[from] as number;
    if (plain[byte] === 1) {
      out[to++] = byte;
      from++;
    } else if (byte >= 0x80) {
      const length = sequenceLength(source, from, end);
      if (length > 0) {
        for (const stop = from + length; from < stop; ) out[to++] = source[from++] as number;
      } else {
        out[to++] = 0xef;
        out[to++] = 0xbf;
        out[to++] = 0xbd;
        invalid |= invalidCell.text;
        from -= length;
      }
    } else {
      out[to++] = backslash;
      const letter = shortEscape[byte] as number;
      if (letter !== 0) {
        out[to++] = letter;
      } else {
        out[to++] = 0x75;
        out[to++] = zero;
        out[to++] = zero;
        out[to++] = lowerHex[byte >> 4] as number;
        out[to++] = lowerHex[byte & 15] as number;
      }
      from++;
    }
  }
  return to;
}

/**
 * The length of the UTF-8 sequence that begins at `from`, or, negative, the length of the broken part there
 * (RFC 3629, section 4; Unicode 15, table 3-7).
 */
function sequenceLength(source: Uint8Array, from: number, end: number): number {
  const lead = source[from] as number;
  let continuation: number;
  let low = 0x80;
  let high = 0xbf;
  if (lead < 0xc2) return -1;
  if (lead < 0xe0) {
    continuation = 1;
  } else if (lead < 0xf0) {
    continuation = 2;
    if (lead === 0xe0) low = 0xa0;
    else if (lead === 0xed) high = 0x9f;
  } else if (lead < 0xf5) {
    continuation = 3;
    if (lead === 0xf0) low = 0x90;
    else if (lead === 0xf4) high = 0x8f;
  } else {
    return -1;
  }
  for (let index = 1; index <= continuation; index++) {
    if (from + index >= end) return -index;
    const byte = source[from + index] as number;
    if (byte < low || byte > high) return -index;
    low = 0x80;
    high = 0xbf;
  }
  return continuation + 1;
}

function writeHex(out: Uint8Array, at: number, source: Uint8Array, start: number, end: number): number {
  let to = at;
  for (let from = start; from < end; from++) {
    const byte = source[from] as number;
    out[to++] = upperHex[byte >> 4] as number;
    out[to++] = upperHex[byte & 15] as number;
  }
  return to;
}

/** A JSON document is copied as the database wrote it; what cannot be one is written as text instead. */
function writeJson(out: Uint8Array, at: number, source: Uint8Array, start: number, end: number): number {
  if (isJsonText(source, start, end)) {
    for (let from = start, to = at; from < end; ) out[to++] = source[from++] as number;
    return at + end - start;
  }
  return writeInvalid(invalidCell.json, out, at, source, start, end);
}

/**
 * Whether the bytes can be a JSON document that MySQL wrote: UTF-8, without control characters, which MySQL escapes, and with
 * the brackets and backslashes of JSON. (A session whose `character_set_results` is latin1, UTF-16 or swe7 gets something else.)
 */
export function isJsonText(source: Uint8Array, start: number, end: number): boolean {
  if (!beginsJson(source, start, end)) return false;
  for (let from = start; from < end; ) {
    const byte = source[from] as number;
    const length = byte < 0x80 ? 1 : sequenceLength(source, from, end);
    if (length <= 0 || byte < 0x20) return false;
    from += length;
  }
  return true;
}

/** Whether the first byte can begin a document; and if it begins a string, whether that ends with the last byte. */
function beginsJson(source: Uint8Array, start: number, end: number): boolean {
  if (start === end) return false;
  const first = source[start] as number;
  if (first !== quote) return jsonStart[first] === 1;
  for (let from = start + 1; from < end; from++) {
    if (source[from] === quote) return from === end - 1;
    if (source[from] === backslash) from++;
  }
  return false;
}

function writeBits(out: Uint8Array, at: number, source: Uint8Array, start: number, end: number): number {
  let value = 0n;
  for (let from = start; from < end; from++) value = (value << 8n) | BigInt(source[from] as number);
  let to = at;
  for (const digit of value.toString()) out[to++] = digit.charCodeAt(0);
  return to;
}

function writeQuotedBits(out: Uint8Array, at: number, source: Uint8Array, start: number, end: number): number {
  const stop = writeBits(out, at + 1, source, start, end);
  out[at] = out[stop] = quote;
  return stop + 1;
}
