import type { ResultSink } from './answers.ts';
import type { DriverError } from './failures.ts';
import { nullPrefix, prefix2, prefix3, prefix8 } from './kernel/shared/row-packet.ts';

/** A row of the text protocol; null for NULL. */
export type TextRow = readonly (string | null)[];

/** Collects the rows of a small result of our own as text. */
export class TextRows implements ResultSink {
  readonly #rows: TextRow[] = [];
  readonly #resolve: (rows: TextRow[]) => void;
  readonly failed: (error: DriverError) => void;
  #columns = 0;

  constructor(resolve: (rows: TextRow[]) => void, reject: (error: DriverError) => void) {
    this.#resolve = resolve;
    this.failed = reject;
  }

  columns(definitions: readonly unknown[]): void {
    this.#columns = definitions.length;
  }

  /** Each cell is a length-encoded string, or NULL (MySQL internals manual, "ProtocolText::ResultsetRow"). */
  row(bytes: Buffer, start: number): void {
    const row: (string | null)[] = [];
    let at = start;
    for (let column = 0; column < this.#columns; column++) {
      const first = bytes[at++] as number;
      if (first === nullPrefix) {
        row.push(null);
        continue;
      }
      // Of a length in eight bytes, the lower six are read.
      const lengthBytes = first < nullPrefix ? 0 : first === prefix2 ? 2 : first === prefix3 ? 3 : 6;
      const length = lengthBytes === 0 ? first : bytes.readUIntLE(at, lengthBytes);
      at += first === prefix8 ? 8 : lengthBytes;
      row.push(bytes.toString('utf8', at, at + length));
      at += length;
    }
    this.#rows.push(row);
  }

  rowTooLarge(): void {}

  ended(): void {
    this.#resolve(this.#rows);
  }
}
