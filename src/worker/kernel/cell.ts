import { writeBits, writeHex, writePlainHex } from './bytes';
import { writeDate } from './date';
import { writeCsv, writeTsv } from './delimited';
import { writeJson } from './json';
import { NumberCell, writeNumber, writeQuotedNumber } from './number';
import { quote } from './shared/ascii';
import * as cellKind from './shared/cell-kind';
import { blockBytes, firstBytes, vectorBytes } from './simd';
import { escapeMask, writeText } from './text';

/** A method, because the linter's parser accepts the decorator there only. */
export class Cell {
  /** Writes a cell whose bytes are its text. Returns `stop.largeRow` for a BIT value of more than 64 bits. */
  @inline static write(kind: u8, at: usize, from: usize, length: usize): usize {
    const cellEnd = from + length;
    let to = at;
    if (kind === cellKind.text) {
      store<u8>(to, quote);
      const low = v128.load(from);
      const high = v128.load(from, vectorBytes);
      v128.store(to, low, 1);
      v128.store(to, high, 1 + vectorBytes);
      if (length <= blockBytes && (escapeMask(low, high) & firstBytes(length)) === 0) {
        to += length + 1;
        store<u8>(to++, quote);
      } else {
        to = writeText(to, from, cellEnd);
      }
    } else if (kind === cellKind.number) {
      const low = v128.load(from);
      const high = v128.load(from, vectorBytes);
      v128.store(to, low);
      v128.store(to, high, vectorBytes);
      if (NumberCell.isPlain(from, length, low, high)) {
        to += length;
      } else {
        to = writeNumber(to, from, cellEnd);
      }
    } else if (kind === cellKind.csvText) {
      to = writeCsv(to, from, cellEnd);
    } else if (kind === cellKind.tsvText) {
      to = writeTsv(to, from, cellEnd);
    } else if (kind === cellKind.plainHex) {
      to = writePlainHex(to, from, cellEnd);
    } else if (kind === cellKind.quotedNumber) {
      store<u8>(to, quote);
      const low = v128.load(from);
      const high = v128.load(from, vectorBytes);
      v128.store(to, low, 1);
      v128.store(to, high, 1 + vectorBytes);
      if (NumberCell.isPlain(from, length, low, high)) {
        to += length + 1;
        store<u8>(to++, quote);
      } else {
        to = writeQuotedNumber(to, from, cellEnd);
      }
    } else if (kind === cellKind.hex) {
      to = writeHex(to, from, cellEnd);
    } else if (kind === cellKind.json) {
      to = writeJson(to, from, cellEnd);
    } else if (<i32>kind >= cellKind.date) {
      to = writeDate(kind, to, from, cellEnd);
    } else {
      to = writeBits(kind, to, from, cellEnd);
    }
    return to;
  }
}
