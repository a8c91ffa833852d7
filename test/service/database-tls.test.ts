import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { type DatabaseKind, isInstalled, type PrivateServer, startServer } from '../support/servers.ts';
import { get, post, query, startSluice } from '../support/sluice.ts';

// Both servers share the machine with whatever else it does.
t.setTimeout(540_000);

const run = promisify(execFile);
const folder = await mkdtemp(join(tmpdir(), 'tls-'));
t.teardown(() => rm(folder, { recursive: true, force: true }));

/** What the certificates say about their holders. */
const certificates = {
  ofName: 'DNS:localhost',
  ofAddress: 'IP:127.0.0.1',
  brief: 'DNS:localhost,IP:127.0.0.1',
} as const;

type CertificateName = keyof typeof certificates;

/** MySQL loads no certificate that has expired, so that one has to expire while it is in use. */
const briefSecs = 4;

const issuer = await makeIssuer('issuer');
const stranger = await makeIssuer('stranger');
// Most of the time is spent starting servers and waiting, so they are tried side by side.
t.jobs = 3;

for (const name of ['ofName', 'ofAddress'] as const) await makeCertificate(name, 3600);

const noTls: Readonly<Record<DatabaseKind, string[]>> = { mariadb: ['--skip-ssl'], mysql: ['--tls-version='] };

for (const kind of ['mariadb', 'mysql'] as const) {
  if (!isInstalled(kind)) continue;
  t.test(
    `the way to ${kind} is encrypted as the URL says, and its certificate held to it`,
    { buffered: true },
    async (t) => {
      const inUse = join(folder, `${kind}-in-use`);
      const server = await startWith(inUse, kind);
      t.teardown(() => server.stop());
      const { port } = server;
      const mode = (name: string) => `ssl-mode=${name}`;
      const trusting = (name: string, ca: string) => `${mode(name)}&ssl-ca=${encodeURIComponent(ca)}`;

      const plain = await startFor(t, `mysql://root@127.0.0.1:${port}/`);
      t.equal(await cipherOf(plain), '', 'without ssl-mode nothing is encrypted');
      const required = await startFor(t, `mysql://root@127.0.0.1:${port}/?${mode('required')}`);
      t.match(await cipherOf(required), /AES|CHACHA/, 'required encrypts, whoever the database is');
      const chain = await startFor(t, `mysql://root@127.0.0.1:${port}/?${trusting('verify-ca', issuer)}`);
      t.match(await cipherOf(chain), /AES|CHACHA/, 'verify-ca asks for no name');
      const name = await startFor(t, `mysql://root@localhost:${port}/?${trusting('verify-full', issuer)}`);
      t.match(await cipherOf(name), /AES|CHACHA/, 'verify-full, by the name in the certificate');

      const address = await startFor(t, `mysql://root@127.0.0.1:${port}/?${trusting('verify-full', issuer)}`);
      await refuses(t, address, /certificate does not pass ssl-mode=verify-full .*127\.0\.0\.1/);
      const ready = await get(address, '/ready');
      t.equal(ready.status, 503);
      t.match(ready.text, /certificate does not pass/);
      const strange = await startFor(t, `mysql://root@localhost:${port}/?${trusting('VERIFY_CA', stranger)}`);
      await refuses(
        t,
        strange,
        /certificate does not pass ssl-mode=verify-ca .*(verify|issuer|self-signed).*ssl-ca=FILE/,
      );
      const usual = await startFor(t, `mysql://root@localhost:${port}/?${mode('VERIFY_IDENTITY')}`);
      await refuses(
        t,
        usual,
        /certificate does not pass ssl-mode=verify-full .*(verify|issuer|self-signed).*ssl-ca=FILE/,
      );

      await present(server, 'ofAddress', inUse);
      t.match(await cipherOf(address), /AES|CHACHA/, 'verify-full, by the address in the certificate');
      await refuses(t, name, /certificate does not pass ssl-mode=verify-full .*localhost/);
      t.match(await cipherOf(chain), /AES|CHACHA/);

      const expiresAt = await makeCertificate('brief', briefSecs);
      await present(server, 'brief', inUse);
      await delay(expiresAt - Date.now());
      for (const sluice of [chain, name, address]) await refuses(t, sluice, /certificate does not pass .*expired/);
      t.match(await cipherOf(required), /AES|CHACHA/);
    },
  );

  t.test(`what goes to and from ${kind} cannot be read on the way`, { buffered: true }, async (t) => {
    const server = await startWith(join(folder, `${kind}-overheard`), kind);
    t.teardown(() => server.stop());
    for (const isEncrypted of [false, true]) {
      const { port, heard } = await overhear(t, server.port);
      const url = `mysql://root@127.0.0.1:${port}/${isEncrypted ? '?ssl-mode=required' : ''}`;
      const sluice = await startFor(t, url);
      // The database makes words of the statement's that the statement does not hold, nor the other way round.
      const { rows } = await query(sluice, "SELECT REVERSE('drow-desrever'), 'plain-word'");
      t.strictSame(rows, [['reversed-word', 'plain-word']]);
      const bytes = heard();
      for (const word of ['drow-desrever', 'reversed-word', 'plain-word']) {
        t.equal(bytes.includes(word), !isEncrypted, `${word}, ${isEncrypted ? 'encrypted' : 'plain'}`);
      }
    }
  });

  t.test(`${kind} without TLS is not talked to where TLS is asked for`, { buffered: true }, async (t) => {
    const server = await startServer(kind, noTls[kind]);
    t.teardown(() => server.stop());
    const { port, heard } = await overhear(t, server.port);
    for (const mode of ['required', 'verify-ca', 'verify-full']) {
      const sluice = await startFor(t, `mysql://root@127.0.0.1:${port}/?ssl-mode=${mode}`);
      await refuses(t, sluice, /does not offer TLS.*ssl-mode of --mysql_url.*turn TLS on/);
    }
    t.notOk(heard().includes('root'), 'nobody said who wanted to log in');
    t.equal(await cipherOf(await startFor(t, `mysql://root@127.0.0.1:${port}/?ssl-mode=disabled`)), '');
    t.ok(heard().includes('root'), 'it would have been heard');
  });
}

/** A server with the certificate of a name, which `present` can replace. */
async function startWith(inUse: string, kind: DatabaseKind): Promise<PrivateServer> {
  await copy('ofName', inUse);
  return await startServer(kind, [`--ssl-cert=${inUse}.pem`, `--ssl-key=${inUse}.key`, `--ssl-ca=${issuer}`]);
}

/** Makes a server show another certificate from now on. */
async function present(server: PrivateServer, name: CertificateName, inUse: string): Promise<void> {
  await copy(name, inUse);
  await server.sql(server.kind === 'mariadb' ? 'FLUSH SSL' : 'ALTER INSTANCE RELOAD TLS');
}

async function copy(name: CertificateName, inUse: string): Promise<void> {
  for (const end of ['pem', 'key']) await copyFile(join(folder, `${name}.${end}`), `${inUse}.${end}`);
}

/** @returns where the service listens; it logs in anew for every request */
async function startFor(t: Test, url: string): Promise<string> {
  const sluice = await startSluice(['--mysql_url', url, '--auth_cache_secs=0', '--worker_threads=1']);
  t.teardown(() => sluice.stop());
  return sluice.url;
}

/** The database's own word on the encryption of the connection; empty: there is none. */
async function cipherOf(sluice: string): Promise<unknown> {
  return (await query(sluice, "SHOW SESSION STATUS LIKE 'Ssl_cipher'")).rows[0]?.[1];
}

async function refuses(t: Test, sluice: string, reason: RegExp): Promise<void> {
  const reply = await post(sluice, { sql: 'SELECT 1' });
  t.equal(reply.status, 503, reply.text);
  t.match(reply.text, reason);
  t.notOk(reply.text.trimEnd().includes('\n'), 'it is one line');
}

/** Stands between, and keeps all that passes. */
async function overhear(t: Test, port: number): Promise<{ port: number; heard: () => Buffer }> {
  const chunks: Buffer[] = [];
  const sockets = new Set<Socket>();
  const between = createServer((near) => {
    const far = connect(port, '127.0.0.1');
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.on('error', () => to.destroy());
      from.on('data', (chunk) => chunks.push(chunk));
      from.pipe(to);
    }
  });
  between.listen(0, '127.0.0.1');
  await once(between, 'listening');
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    between.close();
  });
  return { port: (between.address() as AddressInfo).port, heard: () => Buffer.concat(chunks) };
}

/** @returns the file of its own certificate */
async function makeIssuer(name: string): Promise<string> {
  const file = join(folder, `${name}.pem`);
  const key = join(folder, `${name}.key`);
  await run('openssl', [
    ...['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', `/CN=sluice test ${name}`],
    ...['-keyout', key, '-out', file],
  ]);
  return file;
}

/** @returns when it expires, in ms since 1970 */
async function makeCertificate(name: CertificateName, secs: number): Promise<number> {
  const path = (end: string) => join(folder, `${name}.${end}`);
  await run('openssl', [
    ...['req', '-newkey', 'rsa:2048', '-nodes', '-subj', `/CN=sluice test ${name}`],
    ...['-keyout', path('key'), '-out', path('csr')],
  ]);
  await writeFile(path('index'), '');
  await writeFile(
    path('conf'),
    `[ca]\ndefault_ca=own\n[own]\ndatabase=${path('index')}\nnew_certs_dir=${folder}\nrand_serial=yes\ndefault_md=sha256\n` +
      `policy=any\nx509_extensions=holder\n[any]\ncommonName=supplied\n` +
      `[holder]\nsubjectAltName=${certificates[name]}\n`,
  );
  // Whole seconds, without parting marks: 20240229120000Z.
  const expiresAt = Math.ceil(Date.now() / 1_000 + secs) * 1_000;
  const end = new Date(expiresAt).toISOString().replace(/[-:T]|\.\d+/g, '');
  await run('openssl', [
    ...['ca', '-batch', '-notext', '-config', path('conf'), '-enddate', end, '-cert', issuer],
    ...['-keyfile', join(folder, 'issuer.key'), '-in', path('csr'), '-out', path('pem')],
  ]);
  return expiresAt + 1_000;
}
