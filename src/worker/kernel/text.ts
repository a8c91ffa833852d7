import { reportInvalid } from './invalid';
import { backslash, quote, zero } from './shared/ascii';
import * as invalidCell from './shared/invalid-cell';
import { blockBytes, firstBytes, vectorBytes } from './simd';
import { isUtf8, sequenceLength } from './utf8';

/** Per ASCII code that JSON escapes: the escape in the first seven bytes, and its length in the eighth. */
const escapes: usize = memory.data(8 * 0x60, 8);

/** U+FFFD in UTF-8, little-endian. */
const replacement = 0xbdbfef;

/** Writes text as a JSON string. Malformed UTF-8 becomes U+FFFD. */
export function writeText(at: usize, start: usize, end: usize): usize {
  let to = at;
  let from = start;
  // Bytes from 0x80 on leave the fast path until the rest is known to be UTF-8. Then the minimum maps them to 0x7f, which
  // needs no escape.
  let ceiling = i8x16.splat(-1);
  store<u8>(to++, quote);
  for (;;) {
    const left = end - from;
    const low = v128.load(from);
    const high = v128.load(from, vectorBytes);
    v128.store(to, low);
    v128.store(to, high, vectorBytes);
    let special = escapeMask(v128.min<u8>(low, ceiling), v128.min<u8>(high, ceiling));
    if (left <= blockBytes) {
      special &= firstBytes(left);
      if (special === 0) {
        to += left;
        break;
      }
    } else if (special === 0) {
      from += blockBytes;
      to += blockBytes;
      continue;
    }
    const blockEnd = from + min(left, blockBytes);
    do {
      const plain = ctz(special);
      from += plain;
      to += plain;
      const byte = load<u8>(from);
      if (byte >= 0x80) break;
      to = writeEscape(to, byte);
      from++;
      v128.store(to, v128.load(from));
      v128.store(to, v128.load(from, vectorBytes), vectorBytes);
      special = (special >> plain) >> 1;
    } while (special !== 0);
    if (special === 0) {
      to += blockEnd - from;
      from = blockEnd;
    } else if (isUtf8(from, end)) {
      ceiling = i8x16.splat(0x7f);
    } else {
      to = writeMalformed(to, from, end);
      break;
    }
  }
  store<u8>(to, quote);
  return to + 1;
}

/** A mask of the bytes of a block that JSON escapes or that are not ASCII. */
export function escapeMask(low: v128, high: v128): u32 {
  return i8x16.bitmask(escapeLanes(low)) | (i8x16.bitmask(escapeLanes(high)) << 16);
}

function escapeLanes(vector: v128): v128 {
  const marks = v128.or(i8x16.eq(vector, i8x16.splat(<i8>quote)), i8x16.eq(vector, i8x16.splat(<i8>backslash)));
  // The comparison is signed, so it includes the bytes from 0x80 on.
  return v128.or(marks, i8x16.lt_s(vector, i8x16.splat(0x20)));
}

function writeEscape(to: usize, byte: u8): usize {
  const text = load<u64>(escapes + ((<usize>byte) << 3));
  store<u64>(to, text);
  return to + <usize>(text >> 56);
}

/** Writes text that is not UTF-8, byte by byte, with U+FFFD for each maximal subpart of a malformed sequence. */
function writeMalformed(at: usize, start: usize, end: usize): usize {
  reportInvalid(invalidCell.text);
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

for (let code: u64 = 0; code < 0x20; code++) {
  const last = code & 15;
  setEscape(<u8>code, 0x3030755c | ((zero + (code >> 4)) << 32) | ((last < 10 ? zero + last : 0x57 + last) << 40), 6);
}
setEscape(0x08, 0x625c, 2);
setEscape(0x09, 0x745c, 2);
setEscape(0x0a, 0x6e5c, 2);
setEscape(0x0c, 0x665c, 2);
setEscape(0x0d, 0x725c, 2);
setEscape(<u8>quote, 0x225c, 2);
setEscape(<u8>backslash, 0x5c5c, 2);

function setEscape(code: u8, text: u64, length: u64): void {
  store<u64>(escapes + ((<usize>code) << 3), text | (length << 56));
}
