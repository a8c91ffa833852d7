/*
 * The cost of a row on its path, counted as work instead of time: bytes copied, messages between the threads, memory allocated,
 * per page. All parts run in one thread here, so that their calls can be counted. A higher count means a slower server on every
 * machine.
 */

import { setTimeout as delay } from 'node:timers/promises';
import { MessageChannel, MessagePort } from 'node:worker_threads';
import t from 'tap';
import { pageBody } from '#src/api/native/response.js';
import { Buffers } from '#src/query/buffers.js';
import { LargeRows } from '#src/query/large-rows.js';
import type { Page } from '#src/query/pages.js';
import { Query } from '#src/query/query.js';
import { Lease } from '#src/session/lease.js';
import { LargeResults } from '#src/wire/large-results.js';
import { Link } from '#src/wire/link.js';
import type { FromWorker, ToWorker } from '#src/wire/messages.js';
import { SpillUsage } from '#src/wire/spill-usage.js';
import serve from '#src/worker/entry.js';
import { readPage } from './query/read-page.ts';
import { runBy } from './query/run-by.ts';
import { sharedServers } from './support/servers.ts';
import { unshared } from './support/spill.ts';
import { statement as plain } from './support/statement.ts';

const KiB = 1024;
const MiB = 1024 * KiB;
const quietMsMax = 180_000;

interface Work {
  messages: number;
  allocations: number;
  allocatedBytes: number;
  copiedBytes: number;
}

/** Counts the calls of the functions that allocate, fill and post memory. */
function countWork(): { work: Work; stop: () => void } {
  const work: Work = { messages: 0, allocations: 0, allocatedBytes: 0, copiedBytes: 0 };
  const undo: (() => void)[] = [];
  const watch = <O extends object, K extends keyof O>(
    owner: O,
    name: K,
    look: (args: never[], result: never) => void,
  ) => {
    const original = owner[name] as (...args: never[]) => never;
    const counted = function (this: unknown, ...args: never[]): never {
      const result = original.apply(this, args);
      look(args, result);
      return result;
    };
    Object.defineProperty(owner, name, { value: counted, writable: true, configurable: true });
    undo.push(() => Object.defineProperty(owner, name, { value: original, writable: true, configurable: true }));
  };
  const take = (_: never[], { length }: { length: number }): void => {
    work.allocations++;
    work.allocatedBytes += length;
  };
  const takeAndFill = (args: never[], result: { length: number }): void => {
    take(args, result);
    work.copiedBytes += result.length;
  };
  watch(MessagePort.prototype, 'postMessage', () => work.messages++);
  watch(Buffer, 'allocUnsafeSlow', take);
  watch(Buffer, 'allocUnsafe', take);
  watch(Buffer, 'alloc', take);
  watch(Buffer, 'from', takeAndFill);
  watch(Buffer, 'concat', takeAndFill);
  watch(Object.getPrototypeOf(Uint8Array.prototype) as Uint8Array, 'set', ([source]) => {
    work.copiedBytes += (source as unknown as Uint8Array).length;
  });
  watch(Buffer.prototype, 'copy', (_, copied: number) => {
    work.copiedBytes += copied;
  });
  const stop = (): void => {
    for (const restore of undo) restore();
  };
  return { work, stop };
}

for (const server of await sharedServers()) {
  t.test(`${server.kind}: the path of rows from the socket to the body`, async (t) => {
    const { port1, port2 } = new MessageChannel();
    const link = new Link<ToWorker, FromWorker>(port1);
    const spill = { folder: t.testdir(), bytesMax: 1024 * MiB, total: unshared(1024 * MiB), waitMs: 10_000 };
    const spillUsage = SpillUsage.forThreads(1, spill.total).shared;
    const limits = {
      connectTimeoutMs: 10_000,
      pingMs: 5_000,
      killTimeoutMs: 10_000,
      rowBytesMax: 16 * MiB,
      columnsMax: 8_192,
      paramsBytesMax: 1024,
      paramsMax: 1024,
      spill,
      readOnly: false,
    };
    const largeResults = new SharedArrayBuffer(LargeResults.bytes);
    const address = { socketPath: server.socketPath };
    const served = serve({ port: port2, address, limits, slot: 0, spillUsage, largeResults });
    const largeRows = new LargeRows(
      new Buffers({ bufferBytesMax: 512 * MiB, resultsBytesMax: 1024 * MiB, queryBufferBytesMax: 32 * MiB }),
    );
    const lease = await Lease.open(link.open(), { user: 'root', password: '', database: 'mysql' }, largeRows, 0);
    t.teardown(async () => {
      link.close();
      await served;
    });

    /** Reads a result like a client that requests page after page. */
    async function read(sql: string): Promise<{ pages: number; bytes: number; rows: number; work: Work }> {
      const idle = new Promise<void>((resolve) => lease.once('idle', resolve));
      const identity = { id: 'query', sessionId: 'session', owner: 'root' };
      const query = new Query(
        identity,
        {
          waitMs: 10_000,
          pageRows: 10_000,
          readyRows: 10_000,
          pageBytes: 16 * MiB,
          bufferRows: 5_000_000,
          gzipLevel: 0,
          timeoutMs: 60_000,
          isTimeoutAsked: false,
          format: 'json',
        },
        new Buffers({ bufferBytesMax: 512 * MiB, resultsBytesMax: 1024 * MiB, queryBufferBytesMax: 32 * MiB }),
      );
      const { work, stop } = countWork();
      let [pages, bytes, rows] = [0, 0, 0];
      try {
        runBy(query, plain(sql), (request, observer) => lease.run(request, 'clean', observer), false);
        for (let next: number | null = 0; next !== null; ) {
          const page: Page | null = await readPage(query, next);
          if (page === null) throw new Error(`there is no page ${next}`);
          for (const part of pageBody(identity, page)) bytes += part.length;
          rows += page.rows.count;
          if (page.state.name === 'Failed') throw new Error(page.state.failure.message);
          pages++;
          next = page.next;
        }
      } finally {
        stop();
      }
      await idle;
      return { pages, bytes, rows, work };
    }

    const numbers = `WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 500)
      SELECT a.i * 1000 + b.i AS id, LPAD(a.i * b.i, 40, 'name ') AS name, a.i / 7 AS amount FROM n a, n b`;

    await t.test('a large result', async (t) => {
      await read(numbers);
      const isWithinLimits = ({ pages, bytes, work }: Awaited<ReturnType<typeof read>>): boolean =>
        work.copiedBytes <= 1.15 * bytes &&
        work.allocatedBytes <= 1.3 * bytes &&
        work.messages <= bytes / (64 * KiB) + 2 * pages &&
        work.allocations <= (4 * bytes) / (64 * KiB) + 4 * pages;
      let reading = await read(numbers);
      // A busy machine reads small chunks. Each leaves the start of a row over and is gathered with others, so the read is
      // repeated until one was undisturbed.
      const deadline = performance.now() + quietMsMax;
      while (!isWithinLimits(reading) && performance.now() < deadline) {
        await delay(500);
        reading = await read(numbers);
      }
      const { pages, bytes, rows, work } = reading;
      t.equal(rows, 250_000);
      t.comment(`${pages} pages of ${bytes} bytes: ${JSON.stringify(work)}`);
      // One copy from the encoder to the batch, plus the rest of each chunk and the row ends.
      t.ok(work.copiedBytes <= 1.15 * bytes, `${work.copiedBytes} bytes copied for ${bytes}`);
      // A batch takes the memory of its content, or the buffer in which it was gathered.
      t.ok(work.allocatedBytes <= 1.3 * bytes, `${work.allocatedBytes} bytes allocated for ${bytes}`);
      // The rows of one chunk are a batch if they take 64 KiB or more; smaller ones are gathered to batches of 224 KiB.
      const batches = bytes / (64 * KiB);
      t.ok(work.messages <= batches + 2 * pages, `${work.messages} messages`);
      t.ok(work.allocations <= 4 * batches + 4 * pages, `${work.allocations} allocations`);
    });

    await t.test('a small result', async (t) => {
      await read('SELECT 1');
      const { work, pages } = await read('SELECT 1');
      t.equal(pages, 1);
      t.comment(JSON.stringify(work));
      // The statement, the complete result, and the clean connection if the database reports it late.
      t.ok(work.messages <= 3, `${work.messages} messages`);
      t.ok(work.allocations <= 6, `${work.allocations} allocations`);
      t.ok(work.copiedBytes <= 2 * KiB, `${work.copiedBytes} bytes copied`);
    });
  });
}
