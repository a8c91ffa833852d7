import { anyLength, byteLength, nullCell } from '../shared/arrow';
import {
  binaryRowHeader,
  headerBytes,
  nullBitsOffset,
  nullPrefix,
  payloadBytesMax,
  prefix2,
  prefix3,
} from '../shared/row-packet';
import { lengths, packets, sizes, starts } from './memory';

/** Finds the cells of the rows in `packets`, by column. False: a packet is malformed, or as long as none can be here. */
export function findCells(bytes: usize, rows: usize, columns: usize, isBinary: bool): bool {
  return isBinary ? Rows.find(true, bytes, rows, columns) : Rows.find(false, bytes, rows, columns);
}

class Rows {
  /** Inlined into both calls. `isBinary` is a constant in each, so neither loop tests it. */
  @inline static find(isBinary: bool, bytes: usize, rows: usize, columns: usize): bool {
    const packetsEnd = packets + bytes;
    const step: usize = 4 * rows;
    let packet = packets;
    for (let row: usize = 0; row < rows; row++) {
      const nulls = packet + headerBytes + 1;
      let from = packet + headerBytes;
      const end = from + (<usize>load<u32>(packet) & payloadBytesMax);
      if (end > packetsEnd) return false;
      if (isBinary) {
        from = nulls + ((columns + nullBitsOffset + 7) >> 3);
        if (from > end || load<u8>(packet, headerBytes) !== binaryRowHeader) return false;
      }
      let cell: usize = 4 * row;
      for (let column: usize = 0; column < columns; column++, cell += step) {
        let length: usize;
        if (isBinary) {
          const bit = column + nullBitsOffset;
          if (((load<u8>(nulls + (bit >> 3)) >> <u8>(bit & 7)) & 1) !== 0) {
            store<i32>(lengths + cell, nullCell);
            continue;
          }
          length = load<u8>(sizes + column);
          if (length === byteLength) {
            length = load<u8>(from++);
            if (length >= <usize>nullPrefix) return false;
          } else if (length === anyLength) {
            length = load<u8>(from++);
          }
        } else {
          length = load<u8>(from++);
        }
        if (length >= <usize>nullPrefix) {
          if (!isBinary && length === nullPrefix) {
            store<i32>(lengths + cell, nullCell);
            continue;
          }
          if (length === prefix2) {
            length = load<u16>(from);
            from += 2;
          } else if (length === prefix3) {
            length = <usize>load<u32>(from) & payloadBytesMax;
            from += 3;
          } else {
            return false;
          }
        }
        store<u32>(starts + cell, <u32>(from - packets));
        store<u32>(lengths + cell, <u32>length);
        from += length;
        if (from > end) return false;
      }
      // The last cells may have been NULL, which is not looked for.
      if (from > end) return false;
      packet = end;
    }
    return true;
  }
}
