import t from 'tap';
import { ServerError } from '#src/worker/failures.js';
import {
  isEof,
  isError,
  readColumnCount,
  readColumnDefinition,
  readEof,
  readError,
  readOk,
} from '#src/worker/packets.js';
import { encodedInteger, encodedString } from '../support/row-packets.ts';

/** A packet's payload neither begins nor ends where its buffer does. */
const before = Buffer.from('the end of another packet');
const behind = Buffer.from('the start of the next');

function read<T>(reader: (bytes: Buffer, start: number, end: number) => T, ...parts: readonly Uint8Array[]): T {
  const bytes = Buffer.concat([before, ...parts]);
  return reader(Buffer.concat([bytes, behind]), before.length, bytes.length);
}

function uint16(value: number): Buffer {
  return Buffer.of(value & 0xff, value >> 8);
}

const counts = [0n, 1n, 250n, 251n, 252n, 65_535n, 65_536n, 16_777_215n, 16_777_216n, 2n ** 53n + 1n, 2n ** 64n - 1n];

const unchanged = { variables: [], schema: null, state: false, characteristics: null, transaction: null };

t.test('an OK packet has counts of any size, exact to the last digit', (t) => {
  for (const affected of counts) {
    for (const inserted of counts) {
      const parts = [Buffer.of(0), encodedInteger(affected), encodedInteger(inserted), uint16(0x0002), uint16(65_535)];
      t.strictSame(read(readOk, ...parts), {
        outcome: {
          affectedRows: `${affected}`,
          lastInsertId: inserted === 0n ? null : `${inserted}`,
          warnings: 65_535,
        },
        moreResults: false,
        leftUtf8: null,
        sessionChanged: false,
        inTransaction: false,
        changes: unchanged,
      });
    }
  }
  t.end();
});

t.test('an OK packet may be followed by text, and tells whether more results follow', (t) => {
  const parts = [
    Buffer.of(0),
    encodedInteger(3),
    encodedInteger(0),
    uint16(0x400a),
    uint16(2),
    encodedString('Rows: 3'),
  ];
  t.strictSame(read(readOk, ...parts), {
    outcome: { affectedRows: '3', lastInsertId: null, warnings: 2 },
    moreResults: true,
    leftUtf8: null,
    sessionChanged: true,
    inTransaction: false,
    changes: unchanged,
  });
  t.end();
});

t.test('an OK packet reports changes of the session', (t) => {
  const changed = (kind: number, data: Buffer): Buffer => Buffer.concat([Buffer.of(kind), encodedString(data)]);
  const strings = (...values: readonly string[]): Buffer => Buffer.concat(values.map(encodedString));
  for (const [parts, expected] of [
    [
      [changed(0, strings('a', '1', 'b', ''))],
      {
        variables: [
          ['a', '1'],
          ['b', ''],
        ],
      },
    ],
    [[changed(1, strings('é')), changed(2, strings('1'))], { schema: 'é', state: true }],
    [[changed(1, strings(''))], { schema: '' }],
    [
      [changed(4, strings('SET TRANSACTION READ ONLY;')), changed(5, strings('T_______'))],
      {
        characteristics: 'SET TRANSACTION READ ONLY;',
        transaction: 'T_______',
      },
    ],
    [
      [changed(3, Buffer.alloc(9)), changed(0, strings('a', '1')), changed(0, strings('a', '2'))],
      {
        variables: [
          ['a', '1'],
          ['a', '2'],
        ],
      },
    ],
  ] as const) {
    const head = [Buffer.of(0, 0, 0), uint16(0x4003), uint16(0), encodedString('')];
    const { inTransaction, changes } = read(readOk, ...head, encodedString(Buffer.concat(parts)));
    t.equal(inTransaction, true);
    t.strictSame(changes, { ...unchanged, ...expected });
  }
  t.end();
});

t.test('an OK packet reports whether the statement changed the text encoding from utf8mb4', (t) => {
  const changed = (kind: number, ...values: readonly string[]): Buffer =>
    Buffer.concat([Buffer.of(kind), encodedString(Buffer.concat(values.map(encodedString)))]);
  for (const [changes, leftUtf8] of [
    [[], null],
    [[changed(0, 'character_set_results', 'latin1')], 'text'],
    [[changed(0, 'character_set_results', '')], 'text'],
    [[changed(0, 'character_set_client', 'latin1'), changed(0, 'character_set_connection', 'latin1')], 'names'],
    [[changed(0, 'character_set_client', 'latin1'), changed(0, 'character_set_connection', 'utf8mb4')], 'text'],
    [[changed(0, 'character_set_client', 'utf8mb4'), changed(0, 'character_set_connection', 'utf8mb3')], null],
    [[changed(0, 'character_set_client', 'utf8mb4'), changed(0, 'character_set_results', 'utf8mb4')], null],
    [[changed(0, 'autocommit', 'OFF', 'character_set_results', 'ucs2')], 'text'],
    [[changed(0, 'time_zone', 'character_set_results')], null],
    [[changed(0, 'character_set_server', 'latin1', 'character_set_filesystem', 'latin1')], null],
    [[changed(1, 'a schema'), changed(2, '1'), changed(0, 'character_set_client', 'gbk')], 'text'],
    [[changed(1, 'character_set_results'), changed(9, 'x'.repeat(300))], null],
  ] as const) {
    const head = [Buffer.of(0, 0, 0), uint16(0x4002), uint16(0), encodedString('some information')];
    t.match(read(readOk, ...head, encodedString(Buffer.concat(changes))), { leftUtf8, sessionChanged: true });
    // Without the flag there is no such block.
    const plain = [Buffer.of(0, 0, 0), uint16(0x0002), uint16(0), encodedString('some information')];
    const reported = { leftUtf8: null, sessionChanged: false, changes: unchanged };
    t.match(read(readOk, ...plain, encodedString(Buffer.concat(changes))), reported);
  }
  t.end();
});

t.test('an EOF packet has warnings before its status', (t) => {
  for (const [status, moreResults, sessionChanged] of [
    [0x0002, false, false],
    [0x000a, true, false],
    [0x4002, false, true],
    [0x400a, true, true],
    [0x400b, true, true],
  ] as const) {
    t.strictSame(read(readEof, Buffer.of(0xfe), uint16(7), uint16(status)), {
      outcome: { affectedRows: '0', lastInsertId: null, warnings: 7 },
      moreResults,
      leftUtf8: null,
      sessionChanged,
      inTransaction: status === 0x400b,
      changes: null,
    });
  }
  t.end();
});

t.test('a packet that begins like an EOF packet is one only if it is as short', (t) => {
  for (const [length, is] of [
    [1, true],
    [5, true],
    [7, true],
    [8, true],
    [9, false],
    [300, false],
  ] as const) {
    t.equal(read(isEof, Buffer.of(0xfe), Buffer.alloc(length - 1)), is, `${length} bytes`);
  }
  for (const first of [0x00, 0x01, 0xfb, 0xfd, 0xff]) t.equal(read(isEof, Buffer.of(first, 0, 0, 0, 0)), false);
  t.end();
});

t.test('an ERR packet is recognised by its first byte', (t) => {
  for (const first of [0x00, 0x01, 0xfb, 0xfe]) t.equal(read(isError, Buffer.of(first, 0xff, 0xff)), false);
  t.equal(read(isError, Buffer.of(0xff, 0, 0)), true);
  t.end();
});

t.test('an ERR packet has a number, a state and a message', (t) => {
  for (const [errno, sqlState, message] of [
    [1064, '42000', "You have an error in your SQL syntax near 'é 長 😀'"],
    [65_535, 'HY000', ''],
    [1, '00000', '#'],
  ] as const) {
    const error = read(readError, Buffer.of(0xff), uint16(errno), Buffer.from(`#${sqlState}${message}`));
    t.ok(error instanceof ServerError);
    t.match(error, { errno, sqlState, sqlMessage: message, message, name: 'ServerError' });
    t.notOk('code' in error);
  }
  // Before the login there is no state, as with "Too many connections".
  const early = read(readError, Buffer.of(0xff), uint16(1040), Buffer.from('Too many connections'));
  t.match(early, { errno: 1040, sqlState: '', sqlMessage: 'Too many connections' });
  t.end();
});

t.test('the number of columns is read in each of its forms', (t) => {
  for (const count of [1, 250, 251, 4096, 65_535, 65_536]) t.equal(read(readColumnCount, encodedInteger(count)), count);
  t.end();
});

for (const name of ['name', '', 'x'.repeat(251), 'ärger "名" 😀']) {
  for (const originalName of ['origin', '']) {
    const head = ['def', 'schema', 'alias', 'table', name, originalName].map(encodedString);
    const tail = [Buffer.of(0x0c), uint16(45), Buffer.of(0xfc, 0xff, 0xff, 0xff), Buffer.of(253), uint16(0x8021)];
    const expected = {
      name,
      hasUtf8Names: true,
      isExpression: originalName === '',
      isStored: originalName !== '',
      characterSet: 45,
      length: 0xfffffffc,
      type: 253,
      flags: 0x8021,
      decimals: 39,
    };
    const end = Buffer.of(39, 0, 0);

    t.test(`a column definition is read: ${name.slice(0, 20)} of '${originalName}'`, (t) => {
      const definition = read((bytes, start) => readColumnDefinition(bytes, start, false), ...head, ...tail, end);
      t.strictSame(definition, { ...expected, typeName: '' });
      t.end();
    });

    t.test(`a column definition with MariaDB's metadata is read: ${name.slice(0, 20)} of '${originalName}'`, (t) => {
      const pair = (id: number, value: string): Buffer => Buffer.concat([Buffer.of(id), encodedString(value)]);
      for (const [pairs, typeName] of [
        [[], ''],
        [[pair(0, 'vector')], 'vector'],
        [[pair(1, 'json')], ''],
        [[pair(1, 'json'), pair(0, 'uuid')], 'uuid'],
        [[pair(0, 'inet6'), pair(9, 'from a later version'.repeat(20))], 'inet6'],
      ] as const) {
        const block = encodedString(Buffer.concat(pairs));
        const definition = read(
          (bytes, start) => readColumnDefinition(bytes, start, true),
          ...head,
          block,
          ...tail,
          end,
        );
        t.strictSame(definition, { ...expected, typeName });
      }
      t.end();
    });
  }
}

t.test('a column definition reports whether its names are UTF-8', (t) => {
  for (const [encoding, isUtf8] of [
    ['utf8', true],
    ['latin1', false],
    ['utf16le', false],
  ] as const) {
    const names = ['def', '', '', '', 'é', ''].map((name) => encodedString(Buffer.from(name, encoding)));
    const rest = Buffer.of(0x0c, 45, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0);
    const definition = read((bytes, start) => readColumnDefinition(bytes, start, false), ...names, rest);
    t.equal(definition.hasUtf8Names, isUtf8, encoding);
  }
  t.end();
});

t.test('a column is stored if its definition names a schema, a table and a column', (t) => {
  const tail = [Buffer.of(0x0c), uint16(45), Buffer.of(4, 0, 0, 0), Buffer.of(3), uint16(0), Buffer.of(0, 0, 0)];
  for (const [names, isStored] of [
    [['shop', 'o', 'orders', 'id', 'id'], true],
    // An expression in a view, or in a subquery.
    [['', 'v', 'v', 'id', 'id'], false],
    [['', 'x', '', 'id', 'id'], false],
    [['', '', '', 'id', ''], false],
    [['shop', 'o', '', 'id', 'id'], false],
    [['shop', 'o', 'orders', 'id', ''], false],
  ] as const) {
    const packet = ['def', ...names].map(encodedString);
    const definition = read((bytes, start) => readColumnDefinition(bytes, start, false), ...packet, ...tail);
    t.equal(definition.isStored, isStored, names.join('.'));
  }
  t.end();
});
