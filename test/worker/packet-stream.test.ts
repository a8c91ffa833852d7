import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t, { type Test } from 'tap';
import { type CellKind, cellKind } from '#src/formats/cell-kind.js';
import { formats } from '#src/formats/index.js';
import type { FromWorker, StatementEnd } from '#src/wire/messages.js';
import { SpillUsage } from '#src/wire/spill-usage.js';
import { type Batch, defaultOptions, rowEndsOffset, type StatementOptions } from '#src/wire/statement.js';
import { type Answer, type ResultSink, StatementAnswer } from '#src/worker/answers.js';
import { isJsonText } from '#src/worker/cells.js';
import { describeColumn } from '#src/worker/columns.js';
import { Execution } from '#src/worker/execution.js';
import { headroomBytes, kernel, readBytes } from '#src/worker/kernel.js';
import { type PacketReader, PacketStream } from '#src/worker/packet-stream.js';
import { RowEncoder } from '#src/worker/row-encoder.js';
import { columnPayloads, continuedLength, eofPayload, framed, packetHeaderBytes } from '../support/answer-packets.ts';
import { type Cell, randomCell, referenceCell, textFormat, typedKinds } from '../support/cells.ts';
import { figure } from '../support/form.ts';
import { rowReader } from '../support/mysql2-rows.ts';
import { invalidText, pick, type Random, randomBytes, seeded } from '../support/random.ts';
import { binaryRowPayload, encodedString, rowPayload } from '../support/row-packets.ts';
import { unshared } from '../support/spill.ts';
import { until } from '../support/until.ts';

t.setTimeout(540_000);

const KiB = 1024;
const MiB = 1024 * KiB;
const noLimit = 128 * MiB;

/** An answer with rows: its bytes, and the JSON of each row by mysql2 and the platform. */
interface Expectation {
  readonly bytes: Buffer;
  readonly rows: readonly string[];
}

/** Converts an answer from chunks to rows of JSON. */
abstract class Reading {
  readonly rows: string[] = [];
  readonly stream: PacketStream;
  paused = false;
  /** The number of rows that were requested during a pause. */
  #early = 0;
  #answer: Answer | null;

  constructor(payloadBytesMax = noLimit) {
    const reading = this;
    const reader: PacketReader = {
      get takeRows() {
        if (reading.paused) reading.#early++;
        return reading.#answer?.takeRows ?? null;
      },
      packet: (bytes, start, end) => {
        if (this.paused) this.#early++;
        if (this.#answer === null) throw new Error('a packet came after the end');
        if (this.#answer.packet(bytes, start, end)) this.#answer = null;
      },
      wantsLarge: (bytesMax) => this.#answer?.wantsLarge(bytesMax) ?? true,
      payloadTooLarge: () => this.#answer?.payloadTooLarge(),
    };
    this.stream = new PacketStream(kernel, reader, payloadBytesMax);
    this.#answer = null;
  }

  protected await(sink: ResultSink, isBinary = false): void {
    this.#answer = new StatementAnswer(sink, false, isBinary);
  }

  get hasEnded(): boolean {
    return this.#answer === null;
  }

  give(chunk: Buffer, random: Random): void {
    give(this.stream, chunk, random);
  }

  has(answer: Expectation): boolean {
    return (
      this.hasEnded &&
      this.#early === 0 &&
      this.rows.length === answer.rows.length &&
      this.rows.every((row, index) => row === answer.rows[index])
    );
  }

  protected take(batch: Batch): void {
    const text = Buffer.from(batch.buffer, 0, batch.length);
    let start = 0;
    for (const end of new Uint32Array(batch.buffer, rowEndsOffset(batch.length), batch.rows)) {
      if (start > 0 && text[start - 1] !== 0x2c) throw new Error('there is no comma between two rows');
      this.rows.push(text.toString('utf8', start, end));
      start = end + 1;
    }
    if (start !== batch.length + 1) throw new Error('the last row does not end where the batch does');
  }
}

/** Uses the kernel, like the answer of a statement. Memory that is posted to the main thread is transferred. */
class ByExecution extends Reading {
  readonly execution: Execution;
  end: StatementEnd | null = null;
  messages = 0;
  stops = 0;
  grantsLargeRows = true;
  /** The memory that was requested for large rows and returned, in order. */
  readonly largeRows: number[] = [];

  constructor(
    creditBytes = noLimit,
    creditRows = noLimit,
    rowBytesMax = noLimit,
    options: StatementOptions | null = null,
  ) {
    super(rowBytesMax);
    const statement = {
      type: 'execute',
      statement: 1,
      sql: 'SELECT',
      options,
      after: 'keep',
      keep: null,
      gzipLevel: 0,
      pageRows: 10_000,
    } as const;
    this.execution = new Execution(
      { ...statement, creditBytes, creditRows },
      {
        dropLarge: () => this.stream.dropLarge(),
        pause: () => {
          this.paused = true;
          this.stream.pause();
        },
        resume: () => {
          this.paused = false;
          this.stream.resume();
        },
      },
      {
        limits: {
          rowBytesMax,
          columnsMax: 8_192,
          spill: { folder: '', bytesMax: 0, total: unshared(0), waitMs: 0 },
        },
        spillUsage: SpillUsage.forThreads(1, unshared(0)).ofUser(0),
        post: (message, transfer) => this.#receive(structuredClone(message, { transfer: transfer ? [transfer] : [] })),
        columnsRefs: { refTo: () => ({ number: 0 }) },
        stop: () => {
          this.stops++;
          this.execution.abandon();
        },
        ended: () => this.execution.reportResult(true),
        delivered: () => {},
      },
      false,
    );
    this.await(this.execution, options !== null && options.params !== null);
  }

  #receive(message: FromWorker & { type: 'update' | 'large_row' | 'unwritten' }): void {
    if (message.type === 'large_row') {
      this.largeRows.push(message.bytes);
      if (message.bytes > 0 && this.grantsLargeRows) this.execution.memoryGranted();
    }
    if (message.type !== 'update') return;
    this.messages++;
    if (message.batch !== undefined) this.take(message.batch);
    if (message.end !== undefined) this.end = message.end;
  }
}

/** Takes each row by itself, without the kernel. */
class ByRow extends Reading {
  constructor() {
    super();
    let encoder: RowEncoder | undefined;
    this.await({
      columns: (definitions) => {
        const kinds = definitions.map((definition) => describeColumn(definition, formats.json, false).kind);
        encoder = new RowEncoder(textFormat(kinds), noLimit, (batch) => this.take(batch));
      },
      row: (bytes, start, end) => {
        if (!encoder?.append(bytes, start, end)) throw new Error('a row was refused');
      },
      rowTooLarge: () => {
        throw new Error('a row was dropped');
      },
      ended: () => {
        const batch = encoder?.take() ?? null;
        if (batch !== null) this.take(batch);
        encoder?.release();
      },
      failed: (error) => {
        throw error;
      },
    });
  }
}

const ways = [ByExecution, ByRow] as const;

/** Compares payloads with the expected ones; null stands for one that is too large. */
class Expected implements PacketReader {
  readonly takeRows = null;
  readonly #payloads: readonly (Buffer | null)[];
  readonly #onPacket: () => void;
  #wrong = 0;
  handed = 0;

  constructor(payloads: readonly (Buffer | null)[], onPacket = (): void => {}) {
    this.#payloads = payloads;
    this.#onPacket = onPacket;
  }

  get isComplete(): boolean {
    return this.#wrong === 0 && this.handed === this.#payloads.length;
  }

  packet(bytes: Buffer, start: number, end: number): void {
    const payload = this.#payloads[this.handed++];
    if (payload === null || payload === undefined || payload.compare(bytes, start, end) !== 0) this.#wrong++;
    this.#onPacket();
  }

  wantsLarge(): boolean {
    return true;
  }

  payloadTooLarge(): void {
    if (this.#payloads[this.handed++] !== null) this.#wrong++;
  }
}

t.test('a small answer gives the same rows, however it is cut', (t) => {
  const random = seeded(t);
  for (const answer of [
    randomAnswer(random, typedKinds, figure(6, 12)),
    answerOf([cellKind.text, cellKind.number], [...cellsOf([0, 1, 249, 250, 251, 252]), [null, null]]),
    answerOf([cellKind.text], []),
  ]) {
    for (const way of ways) {
      const wrong: number[] = [];
      for (let cut = 0; cut <= answer.bytes.length; cut++) {
        const reading = new way();
        reading.give(answer.bytes.subarray(0, cut), random);
        reading.give(answer.bytes.subarray(cut), random);
        if (!reading.has(answer)) wrong.push(cut);
      }
      t.strictSame(wrong, [], `${answer.rows.length} rows, ${answer.bytes.length} bytes, by ${way.name}`);
    }
  }
  t.end();
});

t.test('random answers give the same rows in chunks of any size', (t) => {
  const random = seeded(t);
  for (let round = 0; round < figure(40, 300); round++) {
    const kinds = Array.from({ length: 1 + random(8) }, () => pick(random, typedKinds));
    const answer = randomAnswer(random, kinds, random(200));
    const largest = pick(random, [1, 2, 5, 30, 300, 5_000, readBytes]);
    for (const way of ways) {
      const reading = new way();
      for (const chunk of chunksOf(random, answer.bytes, largest)) reading.give(chunk, random);
      if (!reading.has(answer)) t.fail(`round ${round}: kinds ${kinds}, chunks of up to ${largest}, by ${way.name}`);
    }
  }
  t.end();
});

t.test('cells at the length limits of the protocol give the same rows, however they are cut', (t) => {
  const random = seeded(t);
  // Includes the payload that exactly fills the room before a chunk.
  for (const size of [249, 250, 251, 252, 65_524, 65_525, 65_526, 65_527, 65_528, 65_534, 65_535, 65_536, 65_537]) {
    const cells = [Buffer.alloc(size, 'plain "text" é '), invalidText(random, size)];
    const answer = answerOf(
      [cellKind.text, cellKind.number],
      cells.map((cell, number) => [cell, Buffer.from(`${number}`)]),
    );
    const headers = headersOf(answer.bytes).slice(-3);
    const cuts = headers.flatMap((at) => [-2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8].map((offset) => at + offset));
    for (let more = 0; more < figure(3, 10); more++) cuts.push(random(answer.bytes.length));
    for (const way of ways) {
      const wrong = cuts.filter((cut) => {
        const reading = new way();
        reading.give(answer.bytes.subarray(0, cut), random);
        reading.give(answer.bytes.subarray(cut), random);
        return !reading.has(answer);
      });
      t.strictSame(wrong, [], `${size} bytes by ${way.name}`);
    }
  }
  t.end();
});

t.test('rows have the protocol and the format of their own statement, whatever ran before', (t) => {
  const random = seeded(t);
  const kinds = [cellKind.number, cellKind.text, cellKind.json];
  const textRows = [
    rowPayload([Buffer.from('-7'), Buffer.from('"'), null]),
    rowPayload([null, null, Buffer.from('[1]')]),
  ];
  const binaryRows = [
    binaryRowPayload([Buffer.from('f9ffffff', 'hex'), encodedString('"'), null]),
    binaryRowPayload([null, null, encodedString('[1]')]),
  ];
  for (const [format, rows] of [
    ['json', ['[-7,"\\"",null]', '[null,null,[1]]']],
    ['json strings', ['["-7","\\"",null]', '[null,null,"[1]"]']],
    ['json strings, NULL too', ['["-7","\\"","NULL"]', '["NULL","NULL","[1]"]']],
    ['json', ['[-7,"\\"",null]', '[null,null,[1]]']],
  ] as const) {
    for (const params of [null, []]) {
      const reading = new ByExecution(noLimit, noLimit, noLimit, { ...defaultOptions, format, params });
      const payloads = params === null ? textRows : binaryRows;
      reading.give(framed([...columnPayloads(kinds), ...payloads, eofPayload()]), random);
      t.strictSame(reading.rows, rows, `${format}, ${params === null ? 'text' : 'binary'}`);
    }
  }
  t.end();
});

/** Around the length from which a payload takes several packets. Some end with an empty packet. */
const largePayloads = [continuedLength - 1, continuedLength, continuedLength + 1, 2 * continuedLength];

t.test('payloads of several packets are joined, wherever they are cut', (t) => {
  const random = seeded(t);
  const filling = randomBytes(random, MiB + 1);
  const small = Buffer.from('small');
  const payloads = largePayloads.flatMap((length) => [Buffer.alloc(length, filling), small]);
  const bytes = framed([small, ...payloads]);
  const headers = headersOf(bytes);
  const wrong: unknown[] = [];
  // A header has four bytes.
  const [first, last] = figure([-1, 5], [-4, 12]) as [number, number];
  for (let offset = first; offset <= last; offset++) {
    const cuts = headers.map((at) => at + offset).filter((at) => at > 0 && at < bytes.length);
    for (let more = 0; more < figure(5, 10); more++) cuts.push(random(bytes.length));
    cuts.sort((a, b) => a - b);
    const expected = new Expected([small, ...payloads]);
    const stream = new PacketStream(kernel, expected, noLimit);
    let from = 0;
    for (const to of [...cuts, bytes.length]) {
      give(stream, bytes.subarray(from, to), random);
      from = to;
    }
    if (!expected.isComplete) wrong.push(`${offset} from the headers, and at ${cuts}`);
  }
  t.strictSame(wrong, []);
  t.end();
});

t.test('the memory of a large payload is freed once it has been taken', (t) => {
  const random = seeded(t);
  const payload = randomBytes(random, 2 * MiB);
  const taken: Buffer[] = [];
  const reader: PacketReader = {
    takeRows: null,
    packet: (bytes) => taken.push(bytes),
    wantsLarge: () => true,
    payloadTooLarge: () => {},
  };
  give(new PacketStream(kernel, reader, noLimit), framed([payload]), random);
  t.strictSame(
    taken.map(({ length }) => length),
    [0],
    'the buffer has no bytes any more',
  );
  t.end();
});

t.test('rows of 16 MiB and more give the same JSON as in one piece', (t) => {
  const random = seeded(t);
  const kinds = [cellKind.text, cellKind.number, cellKind.json];
  const text = Buffer.alloc(17 * MiB, 'plain "text" é 長 ');
  const document = Buffer.from(`"${'éx'.repeat(figure(MiB / 8, 2 * MiB))}"`);
  const seven = Buffer.from('7');
  const filled = (payloadBytes: number): Cell[] => {
    const row = [Buffer.alloc(0), seven, document];
    // The cell's own length takes four bytes instead of one.
    row[0] = text.subarray(0, payloadBytes - rowPayload(row).length - 3);
    return row;
  };
  const short = [Buffer.from('a'), seven, seven];
  // In the last one, the first byte of the payload equals that of an EOF packet.
  const large = [...[-1, 0, 1].map((more) => filled(continuedLength + more)), [text, seven, document]];
  const answer = answerOf(kinds, [short, ...large.flatMap((row) => [row, short])]);
  t.strictSame(
    large.map((row) => rowPayload(row).length - continuedLength),
    [-1, 0, 1, rowPayload([text, seven, document]).length - continuedLength],
  );
  for (const way of ways) {
    const reading = new way();
    for (const chunk of chunksOf(random, answer.bytes, 3 * readBytes)) reading.give(chunk, random);
    t.ok(reading.has(answer), `by ${way.name}`);
  }
  t.end();
});

t.test('a statement that pauses at any row gets all rows, and none twice', (t) => {
  const random = seeded(t);
  let pauses = 0;
  for (let round = 0; round < figure(30, 250); round++) {
    const kinds = Array.from({ length: 1 + random(4) }, () => pick(random, typedKinds));
    const rows = Array.from({ length: random(400) }, () => kinds.map((kind) => sentCell(random, kind)));
    const hasLarge = random(3) === 0;
    if (hasLarge) {
      const size = pick(random, [headroomBytes, 2 * headroomBytes, readBytes, 2 * readBytes]) + random(100) - 50;
      rows.push(...Array.from({ length: 1 + random(3) }, () => largeRow(kinds, size)));
    }
    const answer = answerOf(kinds, rows);
    // The credit covers some rows, or the memory of some batches.
    const byRows = random(4) > 0;
    const most = byRows ? pick(random, [1, 3, 100]) : 300 * KiB;
    const credit = (other: number): [bytes: number, rows: number] =>
      byRows ? [other, 1 + random(most)] : [1 + random(most), other];
    const reading = new ByExecution(...credit(noLimit));
    const chunks = chunksOf(
      random,
      answer.bytes,
      hasLarge ? pick(random, [10_000, readBytes, 3 * readBytes]) : pick(random, [20, 1_000, 20_000]),
    );
    while (reading.end === null) {
      if (!reading.paused && chunks.length === 0) break;
      // Bytes that arrive during a pause wait. A socket may have read ahead when it was paused.
      const chunk = reading.paused && random(3) > 0 ? undefined : chunks.shift();
      const reported = reading.messages;
      const wasPaused = reading.paused;
      if (chunk === undefined) {
        pauses++;
        reading.execution.credit(...credit(0));
      } else {
        reading.give(chunk, random);
        if (wasPaused && reading.messages !== reported) t.fail(`round ${round}: it reported rows while it was paused`);
      }
    }
    if (!reading.has(answer)) t.fail(`round ${round}: ${rows.length} rows of kinds ${kinds}`);
  }
  t.ok(pauses > figure(100, 300), `${pauses} pauses`);
  t.end();
});

t.test('a reader that pauses at any packet gets all packets, and none while it is paused', (t) => {
  const random = seeded(t);
  for (let round = 0; round < figure(20, 150); round++) {
    const sizes = Array.from({ length: 60 }, () => random(1 + pick(random, [0, 1, 10, 300, 300, 70_000])));
    const payloads = sizes.map((size) => Buffer.alloc(size, randomBytes(random, 251)));
    let isPaused = false;
    let early = 0;
    const expected = new Expected(payloads, () => {
      if (isPaused) early++;
      if (random(4) > 0) return;
      isPaused = true;
      stream.pause();
    });
    const stream = new PacketStream(kernel, expected, noLimit);
    const chunks = chunksOf(random, framed(payloads), pick(random, [100, 5_000, 100_000]));
    while (chunks.length > 0 || isPaused) {
      // Sometimes more than the room before a chunk is received and kept.
      if (isPaused && (chunks.length === 0 || random(4) === 0)) {
        isPaused = false;
        if (stream.resume() !== isPaused) t.fail(`round ${round}: resume did not return whether it was paused again`);
      } else {
        give(stream, chunks.shift() as Buffer, random);
      }
    }
    if (early > 0 || !expected.isComplete) t.fail(`round ${round}: ${early} packets while it was paused`);
  }
  t.end();
});

t.test('the rest of a chunk may exactly fill the room before the next chunk, and more takes its own memory', (t) => {
  const random = seeded(t);
  const wrong: unknown[] = [];
  for (let size = headroomBytes - packetHeaderBytes - 3; size <= headroomBytes - packetHeaderBytes + 3; size++) {
    const payloads = [Buffer.from('before'), Buffer.alloc(size, randomBytes(random, 1_021)), Buffer.from('behind')];
    const bytes = framed(payloads);
    const start = packetHeaderBytes + 6;
    const cuts = [1, 3, 4, 5, size, size + packetHeaderBytes - 1, size + packetHeaderBytes].map((more) => start + more);
    while (cuts.length < 30) cuts.push(start + random(size));
    for (const cut of cuts) {
      const expected = new Expected(payloads);
      const stream = new PacketStream(kernel, expected, noLimit);
      give(stream, bytes.subarray(0, cut), random);
      give(stream, bytes.subarray(cut), random);
      if (!expected.isComplete) wrong.push([size, cut]);
    }
  }
  t.strictSame(wrong, []);

  const payloads = Array.from({ length: 2_000 }, (_, index) => Buffer.alloc(random(1_000), `${index} `));
  const expected = new Expected(payloads);
  const stream = new PacketStream(kernel, expected, noLimit);
  const bytes = framed(payloads);
  stream.pause();
  for (const chunk of chunksOf(random, bytes, readBytes)) give(stream, chunk, random);
  t.ok(bytes.length > headroomBytes + readBytes);
  t.equal(expected.handed, 0);
  t.equal(stream.resume(), false);
  t.ok(expected.isComplete);
  t.end();
});

t.test('a payload that is too large is dropped, reported once, and followed by the next packet', (t) => {
  const random = seeded(t);
  // A payload that is complete in the kernel's memory takes no other memory.
  const most = headroomBytes + readBytes;
  const before = Buffer.alloc(most, 'b');
  const behind = Buffer.from('behind');
  for (const size of [most + 1, 2 * most, ...largePayloads, 3 * continuedLength]) {
    const bytes = framed([before, Buffer.alloc(size, 'too large '), behind, before]);
    for (const largest of [1_000_000, readBytes, 10_000]) {
      const expected = new Expected([before, null, behind, before]);
      const stream = new PacketStream(kernel, expected, most);
      for (const chunk of chunksOf(random, bytes, largest)) give(stream, chunk, random);
      t.ok(expected.isComplete, `${size} bytes in chunks of up to ${largest}`);
    }
  }
  t.end();
});

t.test('the size of a payload is the sum of its packets', (t) => {
  const random = seeded(t);
  const most = continuedLength + 1_000;
  for (const [size, fits] of [
    [most, true],
    [most + 1, false],
    [2 * continuedLength, false],
  ] as const) {
    const payload = Buffer.alloc(size, 'x');
    const expected = new Expected([fits ? payload : null, Buffer.from('behind')]);
    const stream = new PacketStream(kernel, expected, most);
    for (const chunk of chunksOf(random, framed([payload, Buffer.from('behind')]), readBytes)) {
      give(stream, chunk, random);
    }
    t.ok(expected.isComplete, `${size} bytes`);
  }
  t.end();
});

t.test('dropped payloads take no memory', (t) => {
  const expected = new Expected([null]);
  const stream = new PacketStream(kernel, expected, MiB);
  const before = process.memoryUsage().arrayBuffers;
  let most = 0;
  const chunk = Buffer.alloc(readBytes, 'x');
  for (let packet = 0; packet < 12; packet++) {
    const length = packet < 11 ? continuedLength : 1;
    give(stream, Buffer.of(length & 0xff, (length >> 8) & 0xff, length >> 16, packet));
    for (let given = 0; given < length; given += chunk.length) give(stream, chunk.subarray(0, length - given));
    most = Math.max(most, process.memoryUsage().arrayBuffers - before);
  }
  t.ok(expected.isComplete);
  t.ok(most < MiB, `${most} bytes for 176 MiB`);
  t.end();
});

t.test('the kept part of a payload is freed when it turns out to be too large', async (t) => {
  const expected = new Expected([null]);
  const stream = new PacketStream(kernel, expected, continuedLength);
  const full = Buffer.of(0xff, 0xff, 0xff, 0);
  const chunk = Buffer.alloc(continuedLength, 'x');
  const before = await memoryInUse();
  give(stream, full);
  give(stream, chunk);
  t.ok((await memoryInUse()) - before >= continuedLength, 'this part may be kept');
  give(stream, full);
  await until(async () => (await memoryInUse()) - before < MiB);
  give(stream, chunk);
  give(stream, Buffer.alloc(packetHeaderBytes));
  t.ok(expected.isComplete);
});

t.test('a large row is received when its memory is granted, and the next one reuses that memory', (t) => {
  const random = seeded(t);
  stopClock(t);
  const short = [Buffer.from('a')];
  for (const size of [MiB, 5 * MiB, continuedLength + 5]) {
    const answer = answerOf([cellKind.text], [short, [Buffer.alloc(size, 'x')], short, [Buffer.alloc(size, 'y')]]);
    const reading = new ByExecution();
    reading.grantsLargeRows = false;
    const chunks = chunksOf(random, answer.bytes, readBytes);
    let kept = 0;
    while (!reading.hasEnded && (chunks.length > 0 || reading.paused)) {
      const before = process.memoryUsage().arrayBuffers;
      if (reading.paused) {
        // A paused socket may have read ahead.
        const ahead = chunks.shift();
        if (ahead !== undefined) reading.give(ahead, random);
        kept = Math.max(kept, process.memoryUsage().arrayBuffers - before);
        reading.execution.memoryGranted();
      } else reading.give(chunks.shift() as Buffer, random);
    }
    t.ok(reading.has(answer), `${size} bytes`);
    t.ok(kept < MiB, `${kept} bytes were kept while it waited`);
    const bytesMax = size < continuedLength ? rowPayload([Buffer.alloc(size)]).length : noLimit;
    t.strictSame(reading.largeRows, [bytesMax, 0], 'it is returned at the end');
  }
  t.end();
});

t.test('memory for large rows is returned if none follows soon, and a larger row requests more', async (t) => {
  const random = seeded(t);
  const clock = stopClock(t);
  const sizes = [2 * MiB, MiB, 3 * MiB];
  const rows = sizes.map((size) => [Buffer.alloc(size, 'x')]);
  const answer = answerOf([cellKind.text], rows);
  const reading = new ByExecution();
  const [first = 0, second = 0, third = 0] = rows.map((row) => rowPayload(row).length);
  const middle = answer.bytes.length - (third + packetHeaderBytes) - framed([eofPayload()]).length;
  reading.give(answer.bytes.subarray(0, middle), random);
  t.strictSame(reading.largeRows, [first], 'a smaller row reuses the memory of the previous one');
  t.ok(second < first);
  clock.restore();
  await until(() => reading.largeRows.length === 2);
  t.strictSame(reading.largeRows, [first, 0]);
  reading.give(answer.bytes.subarray(middle), random);
  t.ok(reading.has(answer));
  t.strictSame(reading.largeRows, [first, 0, third, 0]);

  stopClock(t);
  const growing = answerOf([cellKind.text], [rows[1] as Cell[], rows[2] as Cell[]]);
  const other = new ByExecution();
  other.give(growing.bytes, random);
  t.ok(other.has(growing));
  t.strictSame(other.largeRows, [second, third, 0], 'a larger grant replaces a smaller one');
});

t.test('a large row of an abandoned statement is dropped, whether it waits or is being received', (t) => {
  const random = seeded(t);
  const large = [Buffer.alloc(5 * MiB, 'x')];
  const answer = answerOf([cellKind.text], [large, large]);
  for (const [state, given] of [
    ['waits', MiB],
    ['is received', 3 * MiB],
  ] as const) {
    const reading = new ByExecution();
    reading.grantsLargeRows = state === 'is received';
    reading.give(answer.bytes.subarray(0, given), random);
    t.equal(reading.paused, state === 'waits');
    reading.execution.abandon();
    t.equal(reading.paused, false);
    t.equal(reading.largeRows.length, 2);
    t.equal(reading.largeRows[1], 0);
    const before = process.memoryUsage().arrayBuffers;
    reading.give(answer.bytes.subarray(given), random);
    t.ok(process.memoryUsage().arrayBuffers - before < MiB, 'the rest of it takes no memory');
    t.ok(reading.hasEnded, `a row that ${state}`);
    t.equal(reading.largeRows.length, 2, 'no memory is requested for the next row');
    t.strictSame(reading.rows, []);
  }
  t.end();
});

t.test('a large row requests memory when its reader takes rows, and not before', (t) => {
  const random = seeded(t);
  const large = [Buffer.alloc(2 * MiB, 'x')];
  const answer = answerOf([cellKind.text], [[Buffer.from('a')], large]);
  const reading = new ByExecution(noLimit, 1);
  reading.give(answer.bytes, random);
  t.equal(reading.paused, true, 'the row before it has used up the credit');
  t.strictSame(reading.largeRows, []);
  reading.execution.credit(0, 1);
  t.strictSame(reading.largeRows.length, 1);
  reading.execution.credit(0, 1);
  t.ok(reading.has(answer));
  t.strictSame(reading.largeRows.length, 2);
  t.end();
});

t.test('a row that is too large fails its statement, and the stream continues after it', (t) => {
  const random = seeded(t);
  const kinds = [cellKind.text];
  const short = Buffer.from('a');
  for (const size of [100_001, 200_000, 400_000, continuedLength - 4, continuedLength, 2 * continuedLength - 9]) {
    for (const behind of [[], [[short]]]) {
      const answer = answerOf(kinds, [[short], [Buffer.alloc(size, 'x')], ...behind]);
      const reading = new ByExecution(noLimit, noLimit, 100_000);
      for (const chunk of chunksOf(random, answer.bytes, readBytes)) reading.give(chunk, random);
      t.match(reading.end, { ok: false, failure: { code: 90_007 } }, `${size} bytes`);
      t.equal(reading.stops, 1, 'it is stopped in the database, once');
      t.strictSame(reading.rows, ['["a"]']);
      t.ok(reading.hasEnded, `the end is reached, with ${behind.length} rows before it`);
    }
  }
  t.end();
});

t.test('two streams of a thread alternate in the memory of its kernel without mixing', (t) => {
  const random = seeded(t);
  for (let round = 0; round < figure(20, 150); round++) {
    const pair = [0, 1].map(() => {
      const kinds = Array.from({ length: 1 + random(5) }, () => pick(random, typedKinds));
      const rows = Array.from({ length: random(300) }, () => kinds.map((kind) => sentCell(random, kind)));
      if (random(4) === 0) rows.push(largeRow(kinds, 70_000 + random(200_000)));
      const answer = answerOf(kinds, rows);
      const reading = new (pick(random, ways))();
      return { answer, reading, chunks: chunksOf(random, answer.bytes, pick(random, [500, 3_000, 50_000, readBytes])) };
    });
    while (pair.some(({ chunks }) => chunks.length > 0)) {
      const { chunks, reading } = pick(random, pair);
      const chunk = chunks.shift();
      if (chunk !== undefined) reading.give(chunk, random);
    }
    for (const { answer, reading } of pair) {
      if (!reading.has(answer)) t.fail(`round ${round}: ${answer.rows.length} rows by ${reading.constructor.name}`);
    }
  }
  t.end();
});

t.test('rows of an abandoned statement are read to their end', (t) => {
  const random = seeded(t);
  for (let round = 0; round < 30; round++) {
    const answer = randomAnswer(random, [cellKind.text, cellKind.bits], 300);
    const reading = new ByExecution(noLimit, 1 + random(100));
    const chunks = chunksOf(random, answer.bytes, pick(random, [100, 5_000, readBytes]));
    for (const chunk of chunks.splice(0, random(chunks.length))) reading.give(chunk, random);
    reading.execution.abandon();
    const reported = reading.messages;
    for (const chunk of chunks) reading.give(chunk, random);
    if (!reading.hasEnded || reading.messages !== reported) t.fail(`round ${round}`);
  }
  t.end();
});

function answerOf(kinds: readonly CellKind[], cells: readonly (readonly Cell[])[]): Expectation {
  const payloads = cells.map(rowPayload);
  const read = rowReader(
    kinds.map(() => ({ columnType: 253, characterSet: 45 })),
    (field) => {
      const kind = kinds[Number(field.name)] as CellKind;
      return kind === cellKind.text ? JSON.stringify(field.string('utf8')) : referenceCell(kind, field.buffer());
    },
  );
  return {
    bytes: framed([...columnPayloads(kinds), ...payloads, eofPayload()]),
    rows: read(framed(payloads)).map((row) => `[${row.join()}]`),
  };
}

function randomAnswer(random: Random, kinds: readonly CellKind[], rows: number): Expectation {
  return answerOf(
    kinds,
    Array.from({ length: rows }, () => kinds.map((kind) => sentCell(random, kind))),
  );
}

/** A row of cells of that size. Text may end within a character, JSON may not. */
function largeRow(kinds: readonly CellKind[], size: number): Cell[] {
  const fill = (kind: CellKind): string => (kind === cellKind.json ? '12345 67' : '12345 é');
  return kinds.map((kind) => (kind < cellKind.bits ? Buffer.alloc(size, fill(kind)) : Buffer.of(0x31)));
}

/** Rows of a text of each of these sizes and its number. */
function cellsOf(sizes: readonly number[]): Cell[][] {
  return sizes.map((size, number) => [Buffer.alloc(size, 'é"'), Buffer.from(`${number}`)]);
}

/** A random cell, except invalid JSON, which databases do not send and which would fail the statement. */
function sentCell(random: Random, kind: CellKind): Cell {
  const cell = randomCell(random, kind);
  if (kind !== cellKind.json || cell === null || isJsonText(cell, 0, cell.length)) return cell;
  return Buffer.from('null');
}

/** Stops the clock, so that work within one turn of the event loop takes no time, however busy the machine is. */
function stopClock(t: Test): { restore: () => void } {
  const now = performance.now();
  return t.capture(performance, 'now', () => now);
}

/** Bytes of buffers after garbage collection. */
async function memoryInUse(): Promise<number> {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  // Buffers are freed on another thread, possibly late, so the value must repeat several times.
  for (let before = Number.POSITIVE_INFINITY, same = 0; ; ) {
    collectGarbage();
    await delay(20);
    const { arrayBuffers } = process.memoryUsage();
    same = arrayBuffers === before ? same + 1 : 0;
    if (same === 3) return before;
    before = arrayBuffers;
  }
}

/** Passes a chunk to a stream as a plain socket or a TLS socket does. */
function give(stream: PacketStream, chunk: Buffer, random?: Random): void {
  if (chunk.length > readBytes || random?.(2) === 0) {
    stream.write(chunk);
  } else {
    chunk.copy(kernel.input, headroomBytes);
    stream.received(chunk.length);
  }
}

/** Splits the bytes into chunks of up to that size. */
function chunksOf(random: Random, bytes: Buffer, largest: number): Buffer[] {
  const chunks: Buffer[] = [];
  for (let from = 0; from < bytes.length; ) {
    const to = from + 1 + random(largest);
    chunks.push(bytes.subarray(from, to));
    from = to;
  }
  return chunks;
}

/** The offsets of the packets. */
function headersOf(bytes: Buffer): number[] {
  const headers: number[] = [];
  for (let at = 0; at < bytes.length; at += packetHeaderBytes + bytes.readUIntLE(at, 3)) headers.push(at);
  return headers;
}
