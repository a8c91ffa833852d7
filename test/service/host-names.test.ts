import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { exchange, type RawReply, requestText } from '../support/raw-http.ts';
import { sharedServers } from '../support/servers.ts';
import { type SluiceProcess, startSluice } from '../support/sluice.ts';

const MAIN_FILE = fileURLToPath(new URL('../../../dist/main.js', import.meta.url));
const authorization = `Basic ${Buffer.from('root:').toString('base64')}`;
const body = JSON.stringify({ sql: 'SELECT 1' });

async function start(t: Test, args: readonly string[]): Promise<SluiceProcess> {
  const [server] = await sharedServers();
  const sluice = await startSluice(['--mysql_url', server?.url as string, '--drain_secs', '0', ...args]);
  t.teardown(() => sluice.stop());
  return sluice;
}

async function ask(sluice: SluiceProcess, host: string, more: Record<string, string> = {}): Promise<RawReply> {
  const headers = { Host: host, Authorization: authorization, 'Content-Type': 'application/json', ...more };
  const { replies } = await exchange(sluice.url, requestText('POST /v1/query HTTP/1.1', headers, body));
  return replies[0] as RawReply;
}

t.test('C: a request under a foreign host name (DNS rebinding) gets 421 and runs nothing', async (t) => {
  const sluice = await start(t, []);
  const { host } = new URL(sluice.url);
  for (const name of ['attacker.example', 'attacker.example:8000', '127.0.0.1.attacker.example']) {
    const reply = await ask(sluice, name, { Origin: `http://${name}` });
    t.equal(reply.status, 421, name);
    t.equal(reply.headers.get('content-type'), 'text/plain; charset=utf-8');
    t.match(reply.body, `'${name}'`);
    t.match(reply.body, /--http_host_names/);
    t.notMatch(reply.body, '\n');
    t.equal((await ask(sluice, name, { 'X-Forwarded-Host': host })).status, 421, 'another header changes nothing');
  }
  t.equal((await ask(sluice, host, { 'X-Forwarded-Host': 'attacker.example' })).status, 200);
  for (const path of ['/health', '/ready', '/metrics', '/nothing']) {
    const { replies } = await exchange(sluice.url, requestText(`GET ${path} HTTP/1.1`, { Host: 'attacker.example' }));
    t.equal(replies[0]?.status, 421, path);
  }
  const old = await exchange(sluice.url, 'GET /health HTTP/1.0\r\nHost: attacker.example\r\n\r\n');
  t.equal(old.replies[0]?.status, 421, 'HTTP/1.0 with a Host header');
  const bare = await exchange(sluice.url, 'GET /health HTTP/1.0\r\n\r\n');
  t.equal(bare.replies[0]?.status, 200, 'HTTP/1.0 need not have a Host header');
});

t.test('C: loopback names, IP addresses, its own host and --http_host_names are served', async (t) => {
  const sluice = await start(t, ['--http_handler_host', 'localhost', '--http_host_names', 'sql.example, sluice']);
  const served = ['localhost', 'LocalHost:1', 'app.localhost', '127.0.0.1', '[::1]:8000', '10.1.2.3:8000'];
  for (const host of [...served, 'sql.example', 'SQL.EXAMPLE:443', 'sluice:8000']) {
    t.equal((await ask(sluice, host)).status, 200, host);
  }
  t.equal((await ask(sluice, 'other.example')).status, 421);
  const open = await start(t, ['--http_host_names', '*']);
  t.equal((await ask(open, 'other.example')).status, 200);
});

t.test('C: a value of --http_host_names that is no host name stops the start with one line', async (t) => {
  const args = [MAIN_FILE, '--mysql_url', 'mysql://127.0.0.1:1', '--http_host_names', 'https://sql.example'];
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  t.equal(status, 1);
  t.match(stderr, /^sluice: [^\n]*--http_host_names has 'https:\/\/sql\.example'[^\n]*\n$/);
});
