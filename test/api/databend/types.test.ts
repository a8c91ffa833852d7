import t from 'tap';
import { timezoneOf } from '#src/api/databend/timezone.js';
import { typeName } from '#src/api/databend/types.js';
import type { ColumnType } from '#src/wire/statement.js';

t.test('types have the names that clients know', async (t) => {
  for (const [type, expected] of [
    [{ name: 'Int8' }, 'Int8'],
    [{ name: 'UInt64' }, 'UInt64'],
    [{ name: 'Float32' }, 'Float32'],
    [{ name: 'Decimal', precision: 65, scale: 30 }, 'Decimal(65, 30)'],
    [{ name: 'String' }, 'String'],
    [{ name: 'Binary' }, 'Binary'],
    [{ name: 'Variant' }, 'Variant'],
    [{ name: 'Time', precision: 3 }, 'String'],
    [{ name: 'Geometry' }, 'Binary'],
    [{ name: 'Vector' }, 'Binary'],
    [{ name: 'Null' }, 'String'],
  ] as [ColumnType, string][]) {
    t.equal(typeName({ name: 'c', type, nullable: false }), expected);
    t.equal(typeName({ name: 'c', type, nullable: true }), `Nullable(${expected})`);
  }
});

t.test('a zero date is null, so date columns are always nullable', async (t) => {
  t.equal(typeName({ name: 'c', type: { name: 'Date' }, nullable: false }), 'Nullable(Date)');
  t.equal(typeName({ name: 'c', type: { name: 'Timestamp', precision: 0 }, nullable: false }), 'Nullable(Timestamp)');
});

t.test('the time zone of a session has an IANA name', async (t) => {
  for (const [variable, expected] of [
    [undefined, 'UTC'],
    ['SYSTEM', 'UTC'],
    ['system', 'UTC'],
    ['Europe/Berlin', 'Europe/Berlin'],
    ['America/Argentina/Buenos_Aires', 'America/Argentina/Buenos_Aires'],
    ['+00:00', 'UTC'],
    ['+02:00', 'Etc/GMT-2'],
    ['-11:00', 'Etc/GMT+11'],
    ['+05:30', 'UTC'],
    ['"},{', 'UTC'],
  ] as const) {
    t.equal(timezoneOf(variable), expected, String(variable));
  }
});
