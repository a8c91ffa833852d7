import t, { type Test } from 'tap';
import type { Param } from '#src/wire/statement.js';
import { closePacket, commandPackets, Pipeline, runPackets } from '#src/worker/commands.js';
import { continuedLength } from '../support/answer-packets.ts';

/** The payloads of packets, each joined from its parts. The packet numbers are checked. */
function payloads(t: Test, bytes: Buffer): Buffer[] {
  const found: Buffer[] = [];
  let parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const length = bytes.readUIntLE(at, 3);
    if (bytes[at + 3] !== parts.length) t.fail(`packet ${bytes[at + 3]} has the number ${parts.length}`);
    parts.push(bytes.subarray(at + 4, at + 4 + length));
    at += 4 + length;
    if (length === continuedLength) continue;
    found.push(Buffer.concat(parts));
    parts = [];
  }
  t.equal(parts.length, 0, 'the last packet is complete');
  return found;
}

t.test('a command consists of its code and its text', (t) => {
  t.strictSame(payloads(t, commandPackets({ type: 'query', sql: 'é' })), [Buffer.from('\u0003é')]);
  t.strictSame(payloads(t, commandPackets({ type: 'prepare', sql: '?' })), [Buffer.from('\u0016?')]);
  t.strictSame(payloads(t, commandPackets({ type: 'init db', database: 'x' })), [Buffer.from('\u0002x')]);
  const both = new Pipeline([{ type: 'ping' }, { type: 'reset connection' }]);
  t.strictSame(payloads(t, both.bytes), [Buffer.of(0x0e), Buffer.of(0x1f)]);
  t.equal(both.length, 2);
  t.end();
});

t.test('a prepared statement is executed with its values and closed', (t) => {
  const close = Buffer.of(0x19, 1, 2, 3, 0x84);
  const head = '17010203840001000000';
  const id = 0x84030201;
  for (const [values, expected] of [
    [[], ''],
    [[null], '01' + '01' + '0600'],
    [[true, false], '00' + '01' + '0100' + '0100' + '0100'],
    [[-2], '00' + '01' + '0800' + 'feffffffffffffff'],
    [[-0, 2 ** 53 - 1], '00' + '01' + '08000800' + '0000000000000000' + 'ffffffffffff1f00'],
    [[0.5, 2 ** 53], '00' + '01' + '05000500' + '000000000000e03f' + '0000000000004043'],
    [['é', ''], '00' + '01' + 'fd00fd00' + '02c3a9' + '00'],
    [
      [null, 1, null, 1, 1, 1, 1, 1, null, 'x'].map((value) => (value === 1 ? true : value)),
      '0501' + '01' + '06000100060001000100010001000100' + '0600fd00' + '010101010101' + '0178',
    ],
  ] as const) {
    const [run, closed] = payloads(t, runPackets({ id, values: values as readonly Param[] }));
    t.equal(run?.toString('hex'), head + expected);
    t.strictSame(closed, close);
  }
  t.strictSame(payloads(t, closePacket(id)), [close]);
  t.end();
});

t.test('long values have long length prefixes and continue in further packets', (t) => {
  const others = new Pipeline([{ type: 'ping' }]).bytes;
  const head = 10 + 1 + 1 + 2;
  for (const [length, prefix] of [
    [250, 'fa'],
    [251, 'fcfb00'],
    [65_535, 'fcffff'],
    [65_536, 'fd000001'],
    [continuedLength - head - 4, 'fdedffff'],
    [continuedLength, 'fdffffff'],
    [continuedLength + 1, 'fe0000000100000000'],
    [2 * continuedLength - head - 9, 'fee7ffff0100000000'],
  ] as const) {
    const [run, , last, ...more] = payloads(t, runPackets({ id: 1, values: ['x'.repeat(length)] }, others));
    t.equal(run?.toString('hex', head, head + prefix.length / 2), prefix, `${length}`);
    t.equal(run?.length, head + prefix.length / 2 + length);
    t.ok(run?.subarray(head + prefix.length / 2).every((byte) => byte === 0x78));
    t.strictSame(last, Buffer.of(0x0e));
    t.equal(more.length, 0);
  }
  t.end();
});
