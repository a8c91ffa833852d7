import { crc32 } from 'node:zlib';

/** A long text in UTF-8 that many answers share. It is encoded once, and sent without being copied. */
export class EncodedText {
  readonly bytes: Buffer;
  #checksum: number | null = null;

  constructor(text: string) {
    this.bytes = Buffer.from(text);
  }

  /** In bytes. */
  get length(): number {
    return this.bytes.length;
  }

  /** CRC-32. */
  get checksum(): number {
    this.#checksum ??= crc32(this.bytes);
    return this.#checksum;
  }
}
