import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:https';
import { connect } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { type CertificateFiles, makeCertificate } from '../support/certificates.ts';
import { exchange } from '../support/raw-http.ts';
import { sharedServers } from '../support/servers.ts';
import { get, type QueryResponse, type SluiceProcess, startSluice } from '../support/sluice.ts';
import { until } from '../support/until.ts';

const MAIN_FILE = fileURLToPath(new URL('../../../dist/main.js', import.meta.url));
/** A database that is never used. */
const NO_DATABASE = ['--mysql_url', 'mysql://root@127.0.0.1:1/'];

async function start(t: Test, args: readonly string[], files?: CertificateFiles): Promise<SluiceProcess> {
  const tls = files === undefined ? [] : ['--tls_cert', files.certFile, '--tls_key', files.keyFile];
  const sluice = await startSluice([...args, ...tls, '--drain_secs', '0', '--worker_threads', '1']);
  t.teardown(() => sluice.stop());
  return sluice;
}

function portOf(sluice: SluiceProcess): number {
  return Number(new URL(sluice.url).port);
}

/** A connection after the TLS handshake with this certificate. */
async function connected(t: Test, sluice: SluiceProcess, ca: Buffer): Promise<TLSSocket> {
  const socket = connectTls({ host: '127.0.0.1', port: portOf(sluice), ca });
  t.teardown(() => socket.destroy());
  await once(socket, 'secureConnect');
  return socket;
}

/** Sends a text. @returns everything that the server sends until it closes the connection */
async function said(socket: TLSSocket, text: string): Promise<string> {
  let received = '';
  socket.on('data', (chunk: Buffer) => {
    received += chunk;
  });
  socket.on('error', () => {});
  socket.write(text);
  await once(socket, 'close');
  return received;
}

async function ask(
  agent: Agent,
  url: string,
  body?: unknown,
): Promise<{ status: number; text: string; headers: Record<string, unknown> }> {
  const headers = { authorization: `Basic ${Buffer.from('root:').toString('base64')}` };
  const outgoing = request(url, {
    agent,
    method: body === undefined ? 'GET' : 'POST',
    headers: body === undefined ? headers : { ...headers, 'content-type': 'application/json' },
  });
  outgoing.end(body === undefined ? undefined : JSON.stringify(body));
  const [incoming] = await once(outgoing, 'response');
  let text = '';
  for await (const chunk of incoming.setEncoding('utf8')) text += chunk;
  return { status: incoming.statusCode as number, text, headers: incoming.headers };
}

async function logged(sluice: SluiceProcess, pattern: RegExp): Promise<void> {
  await until(sluice.log, (log) => pattern.test(log));
}

/** A warning about an address without TLS would be logged together with this line. */
const listening = /"msg":"listening"/;

t.test('statements and their pages are served over HTTPS', async (t) => {
  const files = await makeCertificate(t);
  const [server] = await sharedServers();
  const sluice = await start(t, ['--mysql_url', server?.url as string], files);
  t.match(sluice.url, /^https:\/\/127\.0\.0\.1:\d+$/);
  const agent = new Agent({ keepAlive: true, maxSockets: 1, ca: files.cert });
  t.teardown(() => agent.destroy());
  const sql = 'SELECT 1 AS n UNION SELECT 2 UNION SELECT 3';
  const first = await ask(agent, `${sluice.url}/v1/query`, { sql, pagination: { max_rows_per_page: 2 } });
  t.equal(first.status, 200);
  t.equal(first.headers['x-content-type-options'], 'nosniff');
  const page = JSON.parse(first.text) as QueryResponse;
  const second = JSON.parse((await ask(agent, sluice.url + page.next_uri)).text) as QueryResponse;
  t.strictSame([...page.data, ...second.data], [[1], [2], [3]]);
  await logged(sluice, listening);
  t.notMatch(sluice.log(), /listening_unprotected/);
});

t.test('connections with TLS obey the same limits as those without', async (t) => {
  const files = await makeCertificate(t);
  const args = [...NO_DATABASE, '--pipelined_requests_max', '2', '--request_timeout_secs', '1'];
  const sluice = await start(t, args, files);
  const open = () => connected(t, sluice, files.cert);
  const health = 'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n';
  const last = health.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n');
  t.equal((await said(await open(), health + last)).match(/ 200 OK/g)?.length, 2);
  t.match(await said(await open(), 'garbage\r\n\r\n'), /^HTTP\/1\.1 400 .*the request is not HTTP\n$/s);
  t.match(await said(await open(), health.replace(': localhost', `: ${'x'.repeat(20_000)}`)), /^HTTP\/1\.1 431 /);
  t.match(await said(await open(), 'GET /health'), /^HTTP\/1\.1 408 /);
  const ready = health.replace('health', 'ready');
  t.equal(await said(await open(), ready.repeat(3)), '', 'a connection with too many pipelined requests is closed');

  const plain = await exchange(sluice.url.replace('https', 'http'), health);
  t.equal(plain.text, '', 'plain HTTP is not answered');
  const silent = await exchange(sluice.url, '');
  t.equal(silent.text, '', 'a connection without a TLS handshake in time is closed');
  const half = connect(portOf(sluice), '127.0.0.1').on('error', () => {});
  await once(half, 'connect');
  half.write(Buffer.from('16030100a5010000a10303', 'hex'));
  const begin = performance.now();
  t.equal(await sluice.stop(), 0);
  // Usually takes a tenth of a second.
  t.ok(performance.now() - begin < 15_000, 'an unfinished handshake does not delay the stop');
});

/** About 7 MiB, in one page. */
const largePage = {
  sql: "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT i, REPEAT('ä', 4000) FROM n",
  pagination: { wait_time_secs: 30 },
};

t.test('a page that many clients request and do not read is in memory once', async (t) => {
  const files = await makeCertificate(t);
  const [server] = await sharedServers();
  const sluice = await start(t, ['--mysql_url', server?.url as string], files);
  const agent = new Agent({ keepAlive: true, maxSockets: 1, ca: files.cert });
  t.teardown(() => agent.destroy());
  const first = JSON.parse((await ask(agent, `${sluice.url}/v1/query`, largePage)).text) as QueryResponse;
  t.equal(first.data.length, 900);
  const page = `${first.stats_uri}/page/0`;
  const again = (await ask(agent, sluice.url + page)).text;
  const authorization = `Authorization: Basic ${Buffer.from('root:').toString('base64')}`;
  const get = `GET ${page} HTTP/1.1\r\nHost: localhost\r\n${authorization}\r\n`;

  const before = sluice.memoryBytes();
  const clients = await Promise.all(Array.from({ length: 40 }, () => connected(t, sluice, files.cert)));
  for (const client of clients) client.write(`${get}\r\n`);
  // Each client has received the head and as much of the body as the socket buffers hold.
  for (const client of clients) await once(client, 'readable');
  await ask(agent, `${sluice.url}/health`);
  const moreBytes = sluice.memoryBytes() - before;
  t.ok(moreBytes < 100 * 1024 * 1024, `${Math.round(moreBytes / 1024 / 1024)} MiB for 40 answers of 7 MiB`);

  const [client] = clients as [TLSSocket];
  // Another request, which must wait for the answer before it.
  client.write(`${get}Connection: close\r\n\r\n`);
  let received = '';
  client.setEncoding('utf8').on('data', (text: string) => {
    received += text;
  });
  await once(client, 'end');
  const answers = received.split(/(?=HTTP\/1\.1 200 OK)/);
  t.equal(answers.length, 2);
  for (const answer of answers) t.equal(answer.slice(answer.indexOf('\r\n\r\n') + 4) === again, true, 'every byte');
});

t.test('SIGHUP loads a new certificate, and keeps the old one if the new one is invalid', async (t) => {
  const files = await makeCertificate(t);
  const next = await makeCertificate(t);
  const sluice = await start(t, NO_DATABASE, files);
  const shown = async (ca: Buffer): Promise<boolean> => {
    const agent = new Agent({ ca });
    return ask(agent, `${sluice.url}/health`).then(
      ({ status }) => status === 200,
      () => false,
    );
  };
  t.equal(await shown(files.cert), true);
  t.equal(await shown(next.cert), false);
  const before = await connected(t, sluice, files.cert);

  await copyFile(next.certFile, files.certFile);
  sluice.child.kill('SIGHUP');
  await logged(sluice, /"level":50,.*--tls_key \S+ is not the private key of --tls_cert .*"msg":"certificate_refused"/);
  t.equal(await shown(files.cert), true, 'with only half of the new pair, the old certificate stays');

  await copyFile(next.keyFile, files.keyFile);
  sluice.child.kill('SIGHUP');
  await logged(sluice, /"level":30,.*"msg":"certificate_renewed"/);
  t.equal(await shown(next.cert), true);
  t.equal(await shown(files.cert), false);
  const answer = await said(before, 'GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n');
  t.match(answer, / 200 OK.*ok\n$/s, 'an open connection continues');

  await writeFile(files.certFile, 'no PEM');
  sluice.child.kill('SIGHUP');
  await logged(sluice, /--tls_cert \S+ is not a certificate in PEM/);
  t.equal(await shown(next.cert), true);
});

t.test('an invalid pair of certificate and key stops the start with one line', async (t) => {
  const [one, other] = [await makeCertificate(t), await makeCertificate(t)];
  const cases: [string[], RegExp][] = [
    [['--tls_cert', '/nowhere/cert', '--tls_key', one.keyFile], /--tls_cert \/nowhere\/cert cannot be read: ENOENT/],
    [['--tls_cert', one.certFile, '--tls_key', other.keyFile], /--tls_key \S+ is not the private key of --tls_cert/],
    [['--tls_cert', one.certFile], /--tls_cert and --tls_key are given together/],
    [['--cors_origin', 'https://a.example/path'], /--cors_origin has 'https:\/\/a\.example\/path'/],
  ];
  for (const [args, message] of cases) {
    const result = spawnSync(process.execPath, [MAIN_FILE, ...NO_DATABASE, '--http_handler_port', '0', ...args], {
      encoding: 'utf8',
      timeout: 20_000,
    });
    t.equal(result.status, 1);
    t.match(result.stderr, message);
    t.match(result.stderr, /^sluice: [^\n]*\n$/, 'one line');
  }
});

t.test('an address that other machines can reach causes a warning, unless it has TLS', async (t) => {
  const files = await makeCertificate(t);
  // test/http/server.test.ts has more hosts.
  const hosts: [string, boolean][] = [
    ['localhost', false],
    ['0.0.0.0', true],
    ['::', true],
  ];
  for (const [host, isWarned] of hosts) {
    const sluice = await start(t, [...NO_DATABASE, '--http_handler_host', host]);
    t.equal((await get(sluice.url, '/health')).status, 200, host);
    await logged(sluice, isWarned ? /"msg":"listening_unprotected".*\n/ : listening);
    const line = sluice
      .log()
      .split('\n')
      .find((line) => line.includes('listening_unprotected'));
    t.equal(line !== undefined, isWarned, host);
    if (line !== undefined) {
      t.match(JSON.parse(line), { level: 40, address: sluice.url, advice: /passwords.*--tls_cert.*--tls_key.*proxy/ });
    }
  }
  const safe = await start(t, [...NO_DATABASE, '--http_handler_host', '0.0.0.0'], files);
  await logged(safe, listening);
  t.notMatch(safe.log(), /listening_unprotected/);
});
