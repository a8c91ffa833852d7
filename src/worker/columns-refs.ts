import type { ColumnsRef } from '../wire/messages.ts';
import { type Column, columnsBytes } from '../wire/statement.ts';

/** Results whose columns have a number at once. Both threads keep the columns in memory. */
const refsMax = 32;
/** Larger columns get no number and are sent each time. */
const columnsBytesMax = 8 * 1024;

/** Numbers the columns of results, so that repeated ones are sent to the main thread only once. */
export class ColumnsRefs {
  readonly #numbers = new Map<readonly Column[], number>();

  /** @param columns the same array for the same columns */
  refTo(columns: readonly Column[]): ColumnsRef {
    const known = this.#numbers.get(columns);
    if (known !== undefined) return { number: known };
    if (columnsBytes(columns) > columnsBytesMax) return { columns };
    // The numbers are reused, with other columns.
    if (this.#numbers.size >= refsMax) this.#numbers.clear();
    const number = this.#numbers.size;
    this.#numbers.set(columns, number);
    return { number, columns };
  }
}
