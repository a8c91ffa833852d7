import { RefusalError } from '../refusal-error.ts';
import { causes } from '../wire/failures.ts';
import type { Column } from '../wire/statement.ts';
import type { RowBuffer } from './row-buffer.ts';
import type { RowStore } from './row-store.ts';

const none: readonly Column[] = [];

/** The columns of a query's rows, whose memory counts with that of the rows. */
export class QuerySchema {
  #columns = none;
  /** Where they still are: those of a restored query are read when somebody asks for it. */
  #store: RowStore | null = null;
  readonly #rowBuffer: RowBuffer;
  #reading: Promise<void> | null = null;

  constructor(rowBuffer: RowBuffer) {
    this.#rowBuffer = rowBuffer;
  }

  get columns(): readonly Column[] {
    if (this.#store !== null) throw new Error('the columns of a restored query are asked for before they are read');
    return this.#columns;
  }

  /** @returns false if there is no memory for them */
  hold(columns: readonly Column[]): boolean {
    if (!this.#rowBuffer.holdColumns(columns)) return false;
    this.#columns = columns;
    return true;
  }

  /** Instead of `hold`, for a query that an earlier process has run. */
  leaveIn(store: RowStore | null): void {
    this.#store = store;
  }

  get isOnDisk(): boolean {
    return this.#store !== null;
  }

  /**
   * Reads them from disk, if they are there.
   * @throws RefusalError
   */
  read(): Promise<void> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }

  async #read(): Promise<void> {
    const columns = (await this.#store?.readColumns()) ?? none;
    if (this.#store === null) return;
    if (this.#rowBuffer.isClosed) throw new RefusalError('the result is no longer kept', 'gone');
    if (!this.hold(columns)) {
      throw new RefusalError(causes.storageFull(this.#rowBuffer.heldBytesMax).message, 'too many');
    }
    this.#store = null;
  }
}
