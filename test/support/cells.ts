// Cells of every kind, and what their JSON must be by means that Sluice does not use: the platform's decoder and its JSON.

import { type CellKind, cellKind } from '#src/worker/cells.js';
import { invalidText, pick, type Random, randomBytes } from './random.ts';

export type Cell = Uint8Array | null;

export const allKinds: readonly CellKind[] = Object.values(cellKind);

/** A cell as a column of that kind may hold it; text and bytes are broken in every way. */
export function randomCell(random: Random, kind: CellKind): Cell {
  if (random(8) === 0) return null;
  switch (kind) {
    case cellKind.number: {
      const digits = Array.from({ length: 1 + random(20) }, () => random(10)).join('');
      const shapes = [
        digits,
        `-${digits}`,
        `${digits}.${digits}`,
        `${digits}e${random(300)}`,
        `-0.${digits}`,
        '0',
        'inf',
      ];
      return Buffer.from(pick(random, shapes));
    }
    case cellKind.bits:
      // Now and then wider than any the database has.
      return randomBytes(random, random(random(10) === 0 ? 12 : 9));
    case cellKind.bitsOrDigits:
      return random(2) === 0 ? randomBytes(random, 1 + random(8)) : Buffer.from(`${random(2 ** 32)}`);
    case cellKind.json:
      return random(4) === 0
        ? Buffer.from([0x22, ...invalidText(random, random(20)).filter((byte) => byte !== 0x22 && byte !== 0x5c), 0x22])
        : Buffer.from(JSON.stringify({ key: random(1000), 'é\n"': [null, `${random(9)}`, '\u2028😀'] }));
    default: {
      const size = random(20) === 0 ? 240 + random(30) : random(60);
      return random(3) === 0 ? Buffer.from('plain "text" \\ é 😀'.slice(random(18))) : invalidText(random, size);
    }
  }
}

/** The JSON of a row. */
export function referenceRow(kinds: readonly CellKind[], cells: readonly Cell[]): string {
  return `[${cells.map((cell, column) => referenceCell(kinds[column] as CellKind, cell)).join(',')}]`;
}

export function referenceCell(kind: CellKind, cell: Cell): string {
  if (cell === null) return 'null';
  const bytes = Buffer.from(cell);
  const quoted = (): string => JSON.stringify(new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes));
  switch (kind) {
    case cellKind.number:
      return referenceNumber(bytes.toString('latin1')) ?? quoted();
    case cellKind.text:
      return quoted();
    case cellKind.hex:
      return `"${bytes.toString('hex').toUpperCase()}"`;
    case cellKind.json:
      return referenceDocument(bytes) ?? quoted();
    case cellKind.bits:
      return `${BigInt(`0x0${bytes.toString('hex')}`)}`;
    case cellKind.bitsOrDigits:
      return /^[0-9]+$/.test(bytes.toString('latin1'))
        ? `${BigInt(bytes.toString('latin1'))}`
        : `${BigInt(`0x0${bytes.toString('hex')}`)}`;
    default:
      return kind satisfies never;
  }
}

/** Whatever is a JSON number is given as such; leading zeros go. */
function referenceNumber(text: string): string | null {
  return /^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$/.test(text) ? text.replace(/^(-?)0+(?=[0-9])/, '$1') : null;
}

function referenceDocument(bytes: Buffer): string | null {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    // The database wrote it, so that it is a document whenever it is text.
    return bytes.length > 0 && bytes.findIndex((byte) => byte < 0x20) < 0 ? text : null;
  } catch {
    return null;
  }
}
