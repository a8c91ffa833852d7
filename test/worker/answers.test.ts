import t from 'tap';
import { cellKind } from '#src/formats/cell-kind.js';
import {
  LocalInfileError,
  PlainAnswer,
  PrepareAnswer,
  type PreparedStatement,
  type ResultSink,
  StatementAnswer,
} from '#src/worker/answers.js';
import type { ColumnDefinition } from '#src/worker/columns.js';
import { kernelStop } from '#src/worker/kernel.js';
import {
  columnPayloads,
  eofPayload,
  errorPayload,
  moreResults,
  okPayload,
  sessionChanged,
} from '../support/answer-packets.ts';
import { encodedInteger, rowPayload } from '../support/row-packets.ts';

/** Records its calls. */
class Recorder implements ResultSink {
  readonly reported: string[] = [];

  readonly definitions: (readonly ColumnDefinition[])[] = [];
  sessionChanged: boolean | undefined;

  columns(definitions: readonly ColumnDefinition[]): void {
    this.definitions.push(definitions);
    this.reported.push(`columns ${definitions.map(({ name }) => name).join()}`);
  }

  row(bytes: Buffer, start: number, end: number): void {
    this.reported.push(`row ${bytes.toString('latin1', start, Math.min(end, start + 20))}`);
  }

  rowTooLarge(): void {
    this.reported.push('row too large');
  }

  ended({ outcome, moreResults, sessionChanged }: Parameters<ResultSink['ended']>[0]): void {
    this.sessionChanged = sessionChanged;
    const { affectedRows, lastInsertId, warnings } = outcome;
    this.reported.push(`ended ${affectedRows} ${lastInsertId} ${warnings}${moreResults ? ', more results' : ''}`);
  }

  failed(error: Parameters<ResultSink['failed']>[0]): void {
    this.reported.push(`failed ${error.errno} ${error.sqlState} ${error.sqlMessage ?? error.message}`);
  }
}

/** Passes payloads, surrounded by other bytes, to an answer. Returns for which of them the answer reported its end. */
function give(answer: StatementAnswer | PlainAnswer | PrepareAnswer, payloads: readonly Uint8Array[]): number[] {
  const ends: number[] = [];
  for (const [index, payload] of payloads.entries()) {
    const bytes = Buffer.concat([Buffer.from('before'), payload, Buffer.alloc(10, 0xff)]);
    if (answer.packet(bytes, 6, 6 + payload.length)) ends.push(index);
  }
  return ends;
}

const text = (value: string): Buffer => rowPayload([Buffer.from(value)]);
const oneColumn = columnPayloads([cellKind.text]);
const twoColumns = columnPayloads([cellKind.text, cellKind.bitsOrDigits]);
const killed = errorPayload(1317, '70100', 'Query execution was interrupted é');

t.test('an answer without rows is one OK packet', (t) => {
  const sink = new Recorder();
  const answer = new StatementAnswer(sink, false);
  t.equal(answer.takeRows, null);
  t.strictSame(give(answer, [okPayload({ affectedRows: 300, insertId: 70_000, warnings: 2 })]), [0]);
  t.strictSame(sink.reported, ['ended 300 70000 2']);
  t.end();
});

t.test('an answer with rows consists of columns, rows and an end', (t) => {
  const sink = new Recorder();
  const rows = [rowPayload([Buffer.from('abc'), null]), rowPayload([null, null]), rowPayload([Buffer.alloc(0), null])];
  const payloads = [...twoColumns, ...rows, eofPayload({ warnings: 3 })];
  t.strictSame(give(new StatementAnswer(sink, false), payloads), [payloads.length - 1]);
  t.strictSame(sink.reported, ['columns c0,c1', 'row \x03abc\xfb', 'row \xfb\xfb', 'row \x00\xfb', 'ended 0 null 3']);

  const none = new Recorder();
  t.strictSame(give(new StatementAnswer(none, false), [...oneColumn, eofPayload()]), [oneColumn.length]);
  t.strictSame(none.reported, ['columns c0', 'ended 0 null 0']);
  t.end();
});

t.test('the columns of a wide result are reported at once', (t) => {
  const sink = new Recorder();
  const payloads = columnPayloads(new Array(300).fill(cellKind.number));
  const answer = new StatementAnswer(sink, false);
  t.strictSame(give(answer, payloads.slice(0, -1)), []);
  t.strictSame(sink.reported, [], 'not before their end');
  t.strictSame(give(answer, payloads.slice(-1)), []);
  t.equal(sink.reported.length, 1);
  t.match(sink.reported[0], /^columns c0,c1,.*,c299$/);
  t.end();
});

t.test('several results end with the last one', (t) => {
  const sink = new Recorder();
  const more = { status: moreResults };
  const payloads = [
    ...oneColumn,
    text('a'),
    eofPayload(more),
    okPayload({ ...more, affectedRows: 1 }),
    ...twoColumns,
    rowPayload([Buffer.from('b'), null]),
    eofPayload(more),
    ...oneColumn,
    eofPayload(more),
    okPayload({ affectedRows: 2 }),
  ];
  t.strictSame(give(new StatementAnswer(sink, false), payloads), [payloads.length - 1]);
  t.strictSame(sink.reported, [
    'columns c0',
    'row \x01a',
    'columns c0,c1',
    'row \x01b\xfb',
    'columns c0',
    'ended 2 null 0',
  ]);
  t.end();
});

t.test('a session is changed if one of the results changed it', (t) => {
  const [more, changed, both] = [moreResults, sessionChanged, moreResults | sessionChanged];
  for (const [statuses, expected] of [
    [[0], false],
    [[changed], true],
    [[both, more, 0], true],
    [[more, both, 0], true],
    [[more, more, changed], true],
    [[more, more, 0], false],
  ] as const) {
    for (const ending of [
      (status: number) => [okPayload({ status })],
      (status: number) => [...oneColumn, text('a'), eofPayload({ status })],
    ]) {
      const sink = new Recorder();
      const payloads = statuses.flatMap(ending);
      t.strictSame(give(new StatementAnswer(sink, false), payloads), [payloads.length - 1]);
      t.equal(sink.sessionChanged, expected, `${statuses}`);
    }
  }
  t.end();
});

t.test('equal columns share their definitions, and different ones do not', (t) => {
  const definitionsOf = (payloads: readonly Uint8Array[]): readonly ColumnDefinition[] => {
    const sink = new Recorder();
    give(new StatementAnswer(sink, false), payloads);
    return sink.definitions[0] ?? [];
  };
  const one = definitionsOf(oneColumn);
  t.equal(definitionsOf(oneColumn), one);
  t.strictSame(definitionsOf(twoColumns)[0], one[0]);
  t.not(definitionsOf(twoColumns), one);
  t.notSame(definitionsOf(columnPayloads([cellKind.hex])), one);
  // The full cache size plus uncached columns. Each result must match its packets.
  for (let round = 0; round < 2; round++) {
    for (let width = 1; width <= 300; width++) {
      const kinds = Array.from({ length: width }, (_, column) =>
        (width + column) % 2 === 0 ? cellKind.text : cellKind.hex,
      );
      const definitions = definitionsOf(columnPayloads(kinds));
      const types = definitions.map(({ type }) => (type === 253 ? cellKind.text : cellKind.hex));
      if (types.join() !== kinds.join()) t.fail(`${width} columns`);
    }
  }
  const wide = columnPayloads(new Array(300).fill(cellKind.text));
  t.not(definitionsOf(wide), definitionsOf(wide), 'long definitions are not cached');
  t.strictSame(definitionsOf(oneColumn), one);
  t.end();
});

t.test('an error packet ends the answer at any position', (t) => {
  const failed = 'failed 1317 70100 Query execution was interrupted é';
  for (const [payloads, reported] of [
    [[], []],
    [oneColumn.slice(0, -1), []],
    [oneColumn, ['columns c0']],
    [
      [...oneColumn, text('a')],
      ['columns c0', 'row \x01a'],
    ],
    [
      [...oneColumn, text('a'), eofPayload({ status: moreResults })],
      ['columns c0', 'row \x01a'],
    ],
    [[okPayload({ status: moreResults })], []],
  ] as const) {
    const sink = new Recorder();
    t.strictSame(give(new StatementAnswer(sink, false), [...payloads, killed]), [payloads.length]);
    t.strictSame(sink.reported, [...reported, failed]);
  }
  t.end();
});

t.test('a row that begins like an EOF packet is a row', (t) => {
  // The length of a cell of 16 MiB takes nine bytes, and the first is that of an EOF packet.
  const long = rowPayload([Buffer.alloc(0x1000000, 'x')]);
  t.equal(long[0], eofPayload()[0]);
  const sink = new Recorder();
  const payloads = [...oneColumn, long, text('b'), eofPayload()];
  t.strictSame(give(new StatementAnswer(sink, false), payloads), [payloads.length - 1]);
  t.equal(sink.reported.length, 4);
  t.equal(sink.reported[1], `row \xfe\x00\x00\x00\x01\x00\x00\x00\x00${'x'.repeat(11)}`);
  t.strictSame(sink.reported.slice(2), ['row \x01b', 'ended 0 null 0']);
  t.end();
});

t.test('the kernel takes rows from the end of the columns to the end of the rows', (t) => {
  const calls: [number, number][] = [];
  class Sink extends Recorder {
    rows(from: number, to: number) {
      calls.push([from, to]);
      return kernelStop.inputUsed;
    }
  }
  const answer = new StatementAnswer(new Sink(), false);
  for (let result = 0; result < 2; result++) {
    for (const payload of oneColumn) {
      t.equal(answer.takeRows, null);
      give(answer, [payload]);
    }
    t.equal(answer.takeRows?.(result, 7), kernelStop.inputUsed);
    give(answer, [text('a')]);
    t.type(answer.takeRows, 'function', 'a row that the kernel does not take is not the last packet');
    give(answer, [eofPayload({ status: moreResults })]);
  }
  t.equal(answer.takeRows, null);
  t.strictSame(calls, [
    [0, 7],
    [1, 7],
  ]);

  const plain = new StatementAnswer(new Recorder(), false);
  give(plain, oneColumn);
  t.equal(plain.takeRows, null, 'without a rows method, each row is passed on by itself');
  t.end();
});

t.test('a payload that is too large and a lost connection are reported', (t) => {
  const sink = new Recorder();
  const answer = new StatementAnswer(sink, false);
  give(answer, oneColumn);
  answer.payloadTooLarge();
  answer.failed(new Error('the cable was cut'));
  t.strictSame(sink.reported, ['columns c0', 'row too large', 'failed undefined undefined the cable was cut']);
  t.end();
});

t.test('a request for a local file is refused', (t) => {
  for (const before of [[], [okPayload({ status: moreResults })]]) {
    const sink = new Recorder();
    const answer = new StatementAnswer(sink, false);
    const request = Buffer.from('\xfb/etc/passwd', 'latin1');
    t.throws(() => give(answer, [...before, request]), LocalInfileError);
    t.strictSame(sink.reported, [], 'the packet reader reports the error');
  }
  t.end();
});

/** Returns the calls of an answer whose rows are dropped, and the packets for which it reported its end. */
function givePlain(payloads: readonly Uint8Array[]): { said: unknown[]; ends: number[] } {
  const said: unknown[] = [];
  const answer = new PlainAnswer(
    (error) => said.push(error === null ? 'done' : error.errno),
    (error) => said.push(error.message),
  );
  const ends = give(answer, payloads);
  return { said, ends };
}

t.test('a command whose rows are dropped is done at the end of its answer', (t) => {
  const long = rowPayload([Buffer.alloc(0x1000000, 'x')]);
  for (const [payloads, said] of [
    [[okPayload()], 'done'],
    [[okPayload({ affectedRows: 300, insertId: 7 })], 'done'],
    [[killed], 1317],
    [[...oneColumn, eofPayload()], 'done'],
    [[...oneColumn, text('a'), text(''), eofPayload()], 'done'],
    [[...twoColumns, rowPayload([null, null]), eofPayload({ warnings: 2 })], 'done'],
    [[...oneColumn, rowPayload([null]), long, eofPayload()], 'done'],
    [[...oneColumn, killed], 1317],
    [[...oneColumn, text('a'), killed], 1317],
    [[...columnPayloads(new Array(300).fill(cellKind.text)), eofPayload()], 'done'],
  ] as const) {
    t.strictSame(givePlain(payloads), { said: [said], ends: [payloads.length - 1] });
  }
  t.end();
});

t.test('a row whose first cell is empty does not end a command, although it begins like an OK packet', (t) => {
  const payloads = [...oneColumn, text(''), text('')];
  t.strictSame(givePlain(payloads), { said: [], ends: [] });
  t.end();
});

t.test('a command whose connection is lost fails with the reason and takes no rows', (t) => {
  const said: unknown[] = [];
  const answer = new PlainAnswer(
    () => t.fail('the command must not succeed'),
    (error) => said.push(error.message),
  );
  t.equal(answer.takeRows, null);
  give(answer, [encodedInteger(2)]);
  answer.payloadTooLarge();
  t.equal(answer.takeRows, null);
  answer.failed(new Error('the cable was cut'));
  t.strictSame(said, ['the cable was cut']);
  t.end();
});

t.test('the answer to a prepare has the counts when it is complete', (t) => {
  for (const [placeholders, columns, behind] of [
    [0, 0, []],
    [2, 0, twoColumns.slice(1)],
    [0, 1, oneColumn.slice(1)],
    [1, 2, [...oneColumn.slice(1), ...twoColumns.slice(1)]],
  ] as const) {
    const head = Buffer.alloc(12);
    head.writeUInt32LE(4_000_000_001, 1);
    head.writeUInt16LE(columns, 5);
    head.writeUInt16LE(placeholders, 7);
    head.writeUInt16LE(3, 10);
    for (const columnsMax of [0, 1, 2, 100]) {
      const reported: PreparedStatement[] = [];
      const answer = new PrepareAnswer(
        (prepared) => reported.push(prepared),
        () => t.fail('the command must succeed'),
        { columnsMax, extendedMetadata: false },
      );
      t.strictSame(give(answer, [head, ...behind]), [behind.length]);
      const [{ definitions, ...prepared } = { definitions: null }] = reported;
      t.strictSame(prepared, { id: 4_000_000_001, columns, placeholders, warnings: 3 });
      t.equal(
        definitions?.length,
        columns <= columnsMax ? columns : undefined,
        `${columns} columns, at most ${columnsMax}`,
      );
    }
  }
  const reported: unknown[] = [];
  const answer = new PrepareAnswer(
    () => t.fail('the command must fail'),
    (error) => reported.push(error.errno),
  );
  t.strictSame(give(answer, [killed]), [0]);
  t.strictSame(reported, [1317]);
  t.end();
});

t.test('the OK packet of a command without rows is passed on if requested', (t) => {
  const reported: unknown[] = [];
  const answer = (): PlainAnswer =>
    new PlainAnswer(
      (error) => reported.push(error?.errno ?? 'done'),
      () => {},
      ({ inTransaction }) => reported.push(inTransaction),
    );
  give(answer(), [okPayload({ status: 1 })]);
  give(answer(), [...oneColumn, text('x'), eofPayload()]);
  give(answer(), [killed]);
  t.strictSame(reported, [true, 'done', 'done', 1317]);
  t.end();
});
