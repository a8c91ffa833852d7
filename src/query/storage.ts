/** Counts what all results together hold, in bytes. */
export class Storage {
  readonly bytesMax: number;
  #bytes = 0;

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get isOver(): boolean {
    return this.#bytes > this.bytesMax;
  }

  /** @param bytes more, or, if negative, less */
  change(bytes: number): void {
    this.#bytes += bytes;
  }
}
