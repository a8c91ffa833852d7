import { sequenceLength, writeInvalid } from './cell-text.ts';
import { backslash, quote } from './kernel/shared/ascii.ts';
import * as invalidCell from './kernel/shared/invalid-cell.ts';

/** For each byte: 1 if it starts a JSON document other than a string. */
const jsonStart = new Uint8Array(256);
for (const character of '{[-0123456789tfn') jsonStart[character.charCodeAt(0)] = 1;

/** Copies a JSON document as the database printed it. Anything else is written as text. */
export function writeJson(out: Uint8Array, at: number, source: Uint8Array, start: number, end: number): number {
  if (isJsonText(source, start, end)) {
    for (let from = start, to = at; from < end; ) out[to++] = source[from++] as number;
    return at + end - start;
  }
  return writeInvalid(invalidCell.json, out, at, source, start, end);
}

/**
 * Whether the bytes can be a JSON document printed by MySQL: UTF-8, no control characters, which MySQL escapes, and the
 * brackets and backslashes of JSON. A `character_set_results` of latin1, UTF-16 or swe7 changes one of these.
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

/** Whether the first byte starts a document. A string must also end with the cell. */
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
