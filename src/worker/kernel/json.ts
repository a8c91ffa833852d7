import { reportInvalid } from './invalid';
import { isDigit } from './number';
import { backslash, braceOpen, bracketOpen, letterF, letterN, letterT, minus, quote } from './shared/ascii';
import * as invalidCell from './shared/invalid-cell';
import { firstBytes, vectorBytes } from './simd';
import { writeText } from './text';
import { isUtf8 } from './utf8';

/** Copies a JSON document as the server printed it. Anything else is written as text. */
export function writeJson(at: usize, start: usize, end: usize): usize {
  let nonAscii: u32 = 0;
  for (let from = start; from < end; from += vectorBytes) {
    const vector = v128.load(from);
    v128.store(at + (from - start), vector);
    const inCell = firstBytes(min(end - from, vectorBytes));
    if ((i8x16.bitmask(i8x16.le_u(vector, i8x16.splat(0x1f))) & inCell) !== 0) return writeInvalid(at, start, end);
    nonAscii |= i8x16.bitmask(vector) & inCell;
  }
  // Most documents are objects.
  if (start === end || (load<u8>(start) !== braceOpen && !beginsJson(start, end))) return writeInvalid(at, start, end);
  if (nonAscii !== 0 && !isUtf8(start, end)) return writeInvalid(at, start, end);
  return at + (end - start);
}

function writeInvalid(at: usize, start: usize, end: usize): usize {
  reportInvalid(invalidCell.json);
  return writeText(at, start, end);
}

/** Whether the first byte starts a document other than an object. A string must also end with the cell. */
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
