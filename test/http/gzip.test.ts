import { constants, crc32, deflateRawSync, gunzipSync } from 'node:zlib';
import t from 'tap';
import { type GzipPart, gzipPieces } from '#src/http/gzip.js';
import { seeded } from '../support/random.ts';

function deflated(bytes: Uint8Array): GzipPart {
  const run = deflateRawSync(bytes, { level: 1, finishFlush: constants.Z_SYNC_FLUSH });
  return { bytes: run, length: bytes.length, crc: crc32(bytes) };
}

t.test('parts of any kind and length, in any order, make one gzip member', (t) => {
  const random = seeded(t);
  for (let round = 0; round < 200; round++) {
    const texts = Array.from({ length: random(6) }, () => {
      const bytes = new Uint8Array(random(4) === 0 ? random(200_000) : random(300));
      return bytes.map(() => (random(2) === 0 ? 0x61 : random(256)));
    });
    const parts = texts.map((text) => (random(2) === 0 ? text : deflated(text)));
    const member = Buffer.concat(gzipPieces(parts));
    // The decoder checks the checksum and the length, and refuses trailing bytes.
    t.ok(gunzipSync(member).equals(Buffer.concat(texts)), `round ${round}: ${parts.length} parts`);
  }
  t.end();
});

t.test('compressed parts are passed on unchanged', (t) => {
  const part = deflated(Buffer.alloc(1_000_000, 'abc'));
  t.ok(gzipPieces([part]).includes((part as { bytes: Uint8Array }).bytes));
  t.end();
});
