// Cells of every kind, and what their JSON must be by means that Sluice does not use: the platform's decoder and its JSON.

import { type CellKind, cellKind } from '#src/formats/cell-kind.js';
import { formats } from '#src/formats/index.js';
import type { TextFormatName } from '#src/wire/statement.js';
import { type RowFormat, rowKeys } from '#src/worker/row-format.js';
import { invalidText, pick, type Random, randomBytes } from './random.ts';

export type Cell = Uint8Array | null;

/** Those of JSON. */
export const allKinds: readonly CellKind[] = Object.values(cellKind).filter((kind) => kind < cellKind.csvText);
/** Those of cells that are not all strings. */
export const typedKinds = allKinds.filter((kind) => kind < cellKind.quotedNumber);
export const allFormats: readonly TextFormatName[] = [
  'json',
  'json, large integers as strings',
  'json strings',
  'json strings, NULL too',
];

/** The name of a column in formats with keys. */
export function keyOf(column: number): string {
  return `column "${column}" é`;
}

/** Rows of the text protocol, with cells of these kinds. */
export function textFormat(kinds: readonly CellKind[], cells: TextFormatName = 'json'): RowFormat {
  const { layout, hasKeys } = formats[cells];
  const keys = hasKeys ? rowKeys(kinds.map((_, column) => keyOf(column))) : null;
  return { kinds: Uint8Array.from(kinds), values: null, layout, keys };
}

/** Dates and timestamps as the databases send them, and similar text. */
export function randomDate(random: Random): Buffer {
  const two = (): string => pick(random, ['00', '01', '10', '28', '30', '59', '99']);
  const date = `${pick(random, ['0000', '2024', '9999'])}-${two()}-${two()}`;
  const time = `${date} ${two()}:${two()}:${two()}`;
  const odd = [date.slice(0, random(10)), `${time}.123456789`, `${date}"é`, `${time}.`, `${time}\n`, ''];
  const digits = `${random(1e6)}`.padStart(6, '0').slice(0, 1 + random(6));
  return Buffer.from(pick(random, [date, time, `${time}.${digits}`, `${time}.${digits}`, pick(random, odd)]));
}

/** A cell as a column of that kind may hold it; text and bytes are broken in every way. */
export function randomCell(random: Random, kind: CellKind): Cell {
  if (random(8) === 0) return null;
  switch (kind) {
    case cellKind.number:
    case cellKind.quotedNumber: {
      const digits = Array.from({ length: 1 + random(20) }, () => random(10)).join('');
      const shapes = [
        digits,
        `-${digits}`,
        `${digits}.${digits}`,
        `${digits}e${random(300)}`,
        `-0.${digits}`,
        '0',
        '-0.',
        `+.${digits}`,
        `00-${digits}`,
        'inf',
      ];
      return Buffer.from(pick(random, shapes));
    }
    case cellKind.bits:
    case cellKind.quotedBits:
      // Now and then wider than any the database has.
      return randomBytes(random, random(random(10) === 0 ? 12 : 9));
    case cellKind.bitsOrDigits:
    case cellKind.quotedBitsOrDigits:
      return random(2) === 0 ? randomBytes(random, 1 + random(8)) : Buffer.from(`${random(2 ** 32)}`);
    case cellKind.json:
      return random(4) === 0
        ? Buffer.from([0x22, ...invalidText(random, random(20)).filter((byte) => byte !== 0x22 && byte !== 0x5c), 0x22])
        : Buffer.from(JSON.stringify({ key: random(1000), 'é\n"': [null, `${random(9)}`, '\u2028😀'] }));
    case cellKind.date:
    case cellKind.timestamp:
      return randomDate(random);
    default: {
      const size = random(20) === 0 ? 240 + random(30) : random(60);
      return random(3) === 0 ? Buffer.from('plain "text" \\ é 😀'.slice(random(18))) : invalidText(random, size);
    }
  }
}

/** The JSON of a row. */
export function referenceRow(kinds: readonly CellKind[], row: readonly Cell[], cells: TextFormatName = 'json'): string {
  return `[${row.map((cell, column) => referenceCell(kinds[column] as CellKind, cell, cells)).join(',')}]`;
}

export function referenceCell(kind: CellKind, cell: Cell, cells: TextFormatName = 'json'): string {
  const none = cells === 'json strings, NULL too' ? '"NULL"' : 'null';
  if (cell === null) return none;
  const bytes = Buffer.from(cell);
  const text = bytes.toString('latin1');
  const quoted = (): string => JSON.stringify(new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes));
  switch (kind) {
    case cellKind.number:
      return referenceNumber(text) ?? quoted();
    case cellKind.text:
      return quoted();
    case cellKind.hex:
      return `"${bytes.toString('hex').toUpperCase()}"`;
    case cellKind.json:
      return referenceDocument(bytes) ?? quoted();
    case cellKind.bits:
      return `${BigInt(`0x0${bytes.toString('hex')}`)}`;
    case cellKind.bitsOrDigits:
      return /^[0-9]+$/.test(text) ? `${BigInt(text)}` : referenceCell(cellKind.bits, cell);
    case cellKind.quotedNumber: {
      const number = referenceNumber(text);
      return number === null ? quoted() : `"${number}"`;
    }
    case cellKind.quotedBits:
      return `"${referenceCell(cellKind.bits, cell)}"`;
    case cellKind.quotedBitsOrDigits:
      return `"${referenceCell(cellKind.bitsOrDigits, cell)}"`;
    case cellKind.date:
      return /^.{5}(?:00.{3}|.{3}00)/s.test(text) ? none : quoted();
    case cellKind.timestamp: {
      const date = referenceCell(cellKind.date, cell, cells);
      if (date === none || bytes.length < 19 || bytes.length > 26) return date;
      return `${date.slice(0, -1)}${'.000000'.slice(bytes.length - 19)}"`;
    }
    case cellKind.plainHex:
      return bytes.toString('hex').toUpperCase();
    case cellKind.csvText: {
      const decoded = decode(bytes);
      const isPlain = decoded !== '' && !/[",\r\n]/.test(decoded) && Buffer.from(decoded).equals(bytes);
      return isPlain ? decoded : `"${decoded.replaceAll('"', '""')}"`;
    }
    case cellKind.tsvText:
      return decode(bytes).replace(/[\t\n\\\0]/g, (character) => tsvEscapes[character] as string);
    default:
      return kind satisfies never;
  }
}

const tsvEscapes: Readonly<Record<string, string>> = { '\t': '\\t', '\n': '\\n', '\\': '\\\\', '\0': '\\0' };

function decode(bytes: Uint8Array): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
}

/** The number in JSON's grammar, or null if the text is no number as a server may print one. */
export function referenceNumber(text: string): string | null {
  const parts = /^(?:0*(?=-))?([-+]?)([0-9]*)(?:\.([0-9]*))?([eE][-+]?[0-9]+)?$/.exec(text);
  if (parts === null) return null;
  const [, sign, whole = '', fraction = '', exponent = ''] = parts;
  if (whole === '' && fraction === '') return null;
  const digits = whole.replace(/^0+(?=[0-9])/, '') || '0';
  return `${sign === '-' ? '-' : ''}${digits}${fraction === '' ? '' : `.${fraction}`}${exponent}`;
}

function referenceDocument(bytes: Buffer): string | null {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    return isDocument(text) ? text : null;
  } catch {
    return null;
  }
}

/** Whether a text that the database wrote can be a JSON document: it begins as one, and a string ends where it does. */
export function isDocument(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a document has none.
  if (/[\0-\x1f]/.test(text)) return false;
  if (!text.startsWith('"')) return /^[{[\d\-tfn]/.test(text);
  const unescaped = text.slice(1).replace(/\\./gs, '');
  return unescaped !== '' && unescaped.indexOf('"') === unescaped.length - 1;
}
