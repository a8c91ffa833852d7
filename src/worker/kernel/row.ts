import { Cell } from './cell';
import {
  cellSeparator,
  columns,
  hasKeys,
  nullBytes,
  nullCell,
  rowClose,
  rowCloseBytes,
  rowOpen,
  rowOpenBytes,
} from './format';
import { keyEnds, keys, kinds, values } from './layout';
import * as cellKind from './shared/cell-kind';
import { binaryRowHeader, nullBitsOffset, nullPrefix, payloadBytesMax, prefix2, prefix3 } from './shared/row-packet';
import * as stop from './shared/stop';
import * as valueType from './shared/value-type';
import { copyBytes } from './simd';
import { Value } from './value';

/** Quoted cells are separated by commas. */
const quoteComma: u32 = 0x2c22;

/** Writes a row of the text protocol. Returns its end, or a value of shared/stop.ts, since no address is that small. */
export function writeTextRow(at: usize, start: usize, end: usize): usize {
  return Row.write(false, at, start, end);
}

/** The same for the binary protocol. */
export function writeBinaryRow(at: usize, start: usize, end: usize): usize {
  return Row.write(true, at, start, end);
}

class Row {
  /** Inlined into both callers. `isBinary` is a constant in each, so neither loop tests it. */
  @inline static write(isBinary: bool, at: usize, start: usize, end: usize): usize {
    const nulls = start + 1;
    let from = start;
    if (isBinary) {
      from = nulls + ((columns + nullBitsOffset + 7) >> 3);
      if (from > end || load<u8>(start) !== binaryRowHeader) return stop.malformed;
    }
    const separator = cellSeparator;
    const isKeyed = hasKeys;
    let key = keys;
    let to = at;
    store<u8>(to, rowOpen);
    to += rowOpenBytes;
    for (let column: usize = 0; column < columns; column++) {
      if (isKeyed) {
        const keyEnd = keys + load<u32>(keyEnds + 4 * column);
        to = copyBytes(to, key, keyEnd);
        key = keyEnd;
      }
      if (isBinary) {
        const bit = column + nullBitsOffset;
        if (((load<u8>(nulls + (bit >> 3)) >> <u8>(bit & 7)) & 1) !== 0) {
          store<u64>(to, nullCell);
          to += nullBytes;
          continue;
        }
        const kind = load<u8>(kinds + column);
        const value: u32 = load<u16>(values + 2 * column);
        const type = <i32>(value & 0xff);
        if (type !== valueType.string) {
          // Computed before the value is written, so that the next column does not depend on that.
          const next = from + Value.bytes(type, from);
          if (next > end) return stop.malformed;
          const isQuoted = kind === cellKind.quotedNumber;
          to = Value.write(kind, value, type, isQuoted, to, from);
          if (to <= <usize>stop.malformed) return to;
          store<u16>(to, isQuoted ? quoteComma : separator);
          to += 1 + usize(isQuoted);
          from = next;
          continue;
        }
      }
      let length: usize = load<u8>(from++);
      if (length >= <usize>nullPrefix) {
        if (!isBinary && length === nullPrefix) {
          store<u64>(to, nullCell);
          to += nullBytes;
          continue;
        }
        if (length === prefix2) {
          length = load<u16>(from);
          from += 2;
        } else if (length === prefix3) {
          length = <usize>load<u32>(from) & payloadBytesMax;
          from += 3;
        } else {
          return stop.malformed;
        }
      }
      const cellEnd = from + length;
      if (cellEnd > end) return stop.malformed;
      to = Cell.write(load<u8>(kinds + column), to, from, length);
      if (to === stop.largeRow) return stop.largeRow;
      store<u8>(to++, separator);
      from = cellEnd;
    }
    if (from > end) return stop.malformed;
    // What closes the row replaces the last separator.
    if (columns > 0) to--;
    store<u8>(to, rowClose);
    return to + rowCloseBytes;
  }
}
