import t from 'tap';
import { indexRecord, indexRecordBytes, readIndex } from '#src/wire/kept-rows.js';

const batches = [
  { rows: 1, length: 20, bytes: 24, textBytes: 7, crc: 0xffff_ffff },
  { rows: 0xffff_ffff, length: 0, bytes: 1, textBytes: 2, crc: 0 },
  { rows: 3, length: 4, bytes: 5, textBytes: 6, crc: 7 },
];

t.test('an index is read as it was written', async (t) => {
  t.strictSame(readIndex(Buffer.concat(batches.map(indexRecord))), batches);
  t.strictSame(readIndex(Buffer.alloc(0)), []);
});

t.test('an index ends at the first record that was cut off or damaged', async (t) => {
  const index = Buffer.concat(batches.map(indexRecord));
  for (let length = 0; length <= index.length; length++) {
    t.strictSame(
      readIndex(index.subarray(0, length)),
      batches.slice(0, Math.floor(length / indexRecordBytes)),
      `${length} bytes`,
    );
  }
  for (let bit = 0; bit < index.length * 8; bit++) {
    const damaged = Buffer.from(index);
    damaged[bit >> 3] = (damaged[bit >> 3] as number) ^ (1 << (bit & 7));
    t.strictSame(readIndex(damaged), batches.slice(0, Math.floor((bit >> 3) / indexRecordBytes)), `bit ${bit}`);
  }
});
