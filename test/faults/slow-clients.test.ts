import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { figure, measured, testMsMax } from '../support/form.ts';
import { connectTo, requestText } from '../support/raw-http.ts';
import { sharedServers } from '../support/servers.ts';
import { type SluiceProcess, startSluice } from '../support/sluice.ts';
import { describeWindows, medianP99Ms, p99MsMax, startTraffic } from '../support/traffic.ts';

/*
 * Clients that send one byte per second and never complete a request, in the headers or in the body. Each gets an error and is
 * closed in time, without an effect on other clients.
 */

const clientCount = 500;
const byteEveryMs = 1_000;
const requestTimeoutSecs = figure(3, 30);
/** Ten times their timeout. Timeouts are checked once a second, and the rest of a refused body is received for two seconds. */
const closedMsMax = 10 * requestTimeoutSecs * 1_000;
const windowMs = figure(600, 6_000);
const windowCount = 5;
/** Pause of the regular clients between two statements. */
const restMs = figure(25, 5);

interface End {
  /** Measured from the start of the connection. */
  readonly afterMs: number;
  readonly text: string;
}

// The database makes no difference here: no statement of the slow clients reaches it.
const [server] = await sharedServers();

t.test('500 slow clients are closed in time and delay no other client', { timeout: testMsMax }, async (t) => {
  if (server === undefined) throw new Error('there is no database to test with');
  const user = `slowly_${randomBytes(4).toString('hex')}`;
  await server.sql(`CREATE USER ${user}@'%'`);
  const sluice = await startSluice([
    ...['--mysql_url', server.url, '--drain_secs', '0', '--request_timeout_secs', `${requestTimeoutSecs}`],
  ]);
  t.teardown(async () => {
    await sluice.kill();
    await server.sql(`DROP USER ${user}`);
  });
  const traffic = startTraffic(sluice.url, { login: { user }, restMs });
  await traffic.windows(1, windowMs);
  const before = await traffic.windows(windowCount, windowMs);
  const descriptorsBefore = sluice.descriptors();

  const credentials = `Basic ${Buffer.from(`${user}:`).toString('base64')}`;
  const bodyBytes = 10_000;
  const head = requestText('POST /v1/query HTTP/1.1', {
    Authorization: credentials,
    'Content-Type': 'application/json',
    'Content-Length': `${bodyBytes}`,
  });
  const headers = requestText('GET /health HTTP/1.1', { 'X-Slow': 'x'.repeat(1_000) });
  const chunked = requestText('POST /v1/query HTTP/1.1', {
    Authorization: credentials,
    'Content-Type': 'application/json',
    'Transfer-Encoding': 'chunked',
  });
  const kinds: [string, Buffer, Buffer][] = [
    ['headers', Buffer.alloc(0), headers],
    ['body', head, Buffer.alloc(bodyBytes, ' ')],
    ['chunks', chunked, Buffer.from('1\r\n \r\n'.repeat(1_000))],
    // This client sends part of its request line and nothing more.
    ['nothing', Buffer.from('GET /he'), Buffer.alloc(0)],
  ];
  const clients = Array.from({ length: clientCount }, async (_, number) => {
    const [name, atOnce, slowly] = kinds[number % kinds.length] as (typeof kinds)[number];
    await delay((number / clientCount) * byteEveryMs);
    return { name, ...(await sendSlowly(sluice, atOnce, slowly)) };
  });
  const [beside, ends] = await Promise.all([traffic.windows(windowCount, windowMs), Promise.all(clients)]);
  await traffic.stop();

  for (const [name] of kinds) {
    const mine = ends.filter((end) => end.name === name);
    const latestMs = Math.max(...mine.map(({ afterMs }) => afterMs));
    const earliestMs = Math.min(...mine.map(({ afterMs }) => afterMs));
    t.ok(latestMs <= closedMsMax, `${name}: the last is closed after ${Math.round(latestMs)} ms`);
    t.ok(earliestMs >= requestTimeoutSecs * 1_000 - 500, `${name}: none is closed early: ${Math.round(earliestMs)} ms`);
    const untold = mine.filter(({ text }) => !/^HTTP\/1\.1 408 [\s\S]*--request_timeout_secs/.test(text));
    t.strictSame(
      untold.slice(0, 3).map(({ text }) => text.slice(0, 200)),
      [],
      `${name}: each gets the reason`,
    );
    measured(
      t,
      `${mine.length} clients, ${name} at a byte a second: closed after ${Math.round(earliestMs)} to ` +
        `${Math.round(latestMs)} ms (--request_timeout_secs ${requestTimeoutSecs})`,
    );
  }
  isUnharmed(t, sluice, descriptorsBefore);
  t.strictSame(traffic.wrong.slice(0, 3), [], 'all other clients got correct answers');
  const [aloneMs, besideMs] = [medianP99Ms(before), medianP99Ms(beside)];
  t.ok(
    besideMs <= p99MsMax,
    `p99 of other clients: ${aloneMs.toFixed(1)} ms alone, ${besideMs.toFixed(1)} ms with slow clients; the limit is ${p99MsMax} ms`,
  );
  t.comment(`p99 in ms (statements) alone: ${describeWindows(before)}; beside: ${describeWindows(beside)}`);
  measured(t, `p99 of others ${aloneMs.toFixed(1)} ms alone, ${besideMs.toFixed(1)} ms beside`);
});

function isUnharmed(t: Test, sluice: SluiceProcess, descriptorsBefore: number): void {
  const descriptors = sluice.descriptors();
  t.ok(descriptors <= descriptorsBefore + 4, `${descriptorsBefore} descriptors before, ${descriptors} after`);
  t.notMatch(sluice.log(), /"level":50/, 'the log reports no defect');
}

/** Sends some bytes at once and the rest one by one, until the server closes the connection. */
function sendSlowly({ url }: SluiceProcess, atOnce: Buffer, slowly: Buffer): Promise<End> {
  return new Promise((resolve) => {
    const beganMs = performance.now();
    const socket = connectTo(url);
    const chunks: Buffer[] = [];
    let sent = 0;
    const timer = setInterval(() => {
      if (sent < slowly.length && socket.writable) socket.write(slowly.subarray(sent, ++sent));
    }, byteEveryMs);
    // The timeout is long over, so the test fails, but it ends.
    const patience = setTimeout(() => socket.destroy(), 2 * closedMsMax);
    // Before the connection is there, so that no byte of the rest overtakes it on a machine that takes a second to connect.
    if (atOnce.length > 0) socket.write(atOnce);
    socket.on('data', (chunk) => chunks.push(chunk));
    // Only the answer before the close counts.
    socket.on('error', () => {});
    socket.on('close', () => {
      clearInterval(timer);
      clearTimeout(patience);
      resolve({ afterMs: performance.now() - beganMs, text: Buffer.concat(chunks).toString() });
    });
  });
}
