import { writeDateValue, writeTimeValue } from './date';
import { Decimal } from './decimal';
import { writeFloatValue } from './float';
import { minus, quote } from './shared/ascii';
import * as cellKind from './shared/cell-kind';
import * as stop from './shared/stop';
import * as valueType from './shared/value-type';

/** Bytes of a value, by type, for the types before `date`. */
const valueSizes: usize = memory.data<u8>([0, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8]);

/** Values of binary rows, other than strings. */
export class Value {
  /** The length of the value at `from`. */
  @inline static bytes(type: i32, from: usize): usize {
    return type < valueType.date ? load<u8>(valueSizes + type) : 1 + <usize>load<u8>(from);
  }

  /**
   * Writes a value, without the closing quote of a quoted number. Returns `stop.malformed` for an impossible date or time.
   * @param value the column's entry in `values`: its type, and decimals in the upper byte
   */
  @inline static write(kind: u8, value: u32, type: i32, isQuoted: bool, at: usize, from: usize): usize {
    let to = at;
    if (type >= valueType.date) {
      // The quotes of a plain cell are written where its neighbours are: the first byte is put back, the last one overwritten.
      const isPlain = usize(<i32>kind >= cellKind.csvText);
      const before = load<u8>(at - 1);
      to -= isPlain;
      to = type === valueType.time ? writeTimeValue(value >> 8, to, from) : writeDateValue(value, kind, to, from);
      if (isPlain !== 0 && to > <usize>stop.malformed) {
        store<u8>(at - 1, before);
        to--;
      }
    } else {
      store<u8>(to, quote);
      to += usize(isQuoted);
      if (type >= valueType.float) {
        to = writeFloatValue(value, to, from);
      } else {
        const bits = load<u64>(from);
        const unused = 64 - ((<u64>load<u8>(valueSizes + type)) << 3);
        // Unsigned types have even numbers.
        const number: i64 = (type & 1) === 0 ? <i64>((bits << unused) >> unused) : <i64>(bits << unused) >> unused;
        const sign = (type & 1) === 0 ? 0 : number >> 63;
        store<u8>(to, minus);
        to = Decimal.writeUnsigned(to - <usize>sign, <u64>((number ^ sign) - sign));
      }
    }
    return to;
  }
}
