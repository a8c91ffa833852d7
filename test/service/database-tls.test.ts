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

// Both servers share the machine with other work.
t.setTimeout(540_000);

const run = promisify(execFile);
const folder = await mkdtemp(join(tmpdir(), 'tls-'));
t.teardown(() => rm(folder, { recursive: true, force: true }));

/** The subject alternative name of each certificate. */
const certificates = {
  ofName: 'DNS:localhost',
  ofAddress: 'IP:127.0.0.1',
  // The tests of both databases make theirs at the same time.
  'brief-mariadb': 'DNS:localhost,IP:127.0.0.1',
  'brief-mysql': 'DNS:localhost,IP:127.0.0.1',
} as const;

type CertificateName = keyof typeof certificates;

/** MySQL does not load an expired certificate, so this one expires while it is in use. */
const briefSecs = 4;

/** Cheaper to generate than an RSA key. */
const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

const issuer = await makeIssuer('issuer');
const stranger = await makeIssuer('stranger');
// Most of the time is spent starting servers and waiting, so the tests run concurrently.
t.jobs = 2;

for (const name of ['ofName', 'ofAddress'] as const) await makeCertificate(name, 3600);

const noTls: Readonly<Record<DatabaseKind, string[]>> = { mariadb: ['--skip-ssl'], mysql: ['--tls-version='] };

for (const kind of ['mariadb', 'mysql'] as const) {
  if (!isInstalled(kind)) continue;
  t.test(
    `the connection to ${kind} is encrypted as the URL says, and the certificate is verified accordingly`,
    { buffered: true },
    async (t) => {
      const inUse = join(folder, `${kind}-in-use`);
      const server = await startWith(inUse, kind);
      t.teardown(() => server.stop());
      // Some services connect through a proxy that records all bytes and can switch to another server. The service that
      // encrypts nothing has a proxy of its own, because it may query the database at any time.
      const proxy = await startRecordingProxy(t, server.port);
      const plainProxy = await startRecordingProxy(t, server.port);
      const { port } = server;
      const mode = (name: string) => `ssl-mode=${name}`;
      const trusting = (name: string, ca: string) => `${mode(name)}&ssl-ca=${encodeURIComponent(ca)}`;

      const plain = await startFor(t, `mysql://root@127.0.0.1:${port}/`);
      t.equal(await cipherOf(plain), '', 'without ssl-mode nothing is encrypted');
      const disabled = await startFor(t, `mysql://root@127.0.0.1:${plainProxy.port}/?${mode('disabled')}`);
      t.equal(await cipherOf(disabled), '', 'ssl-mode=disabled encrypts nothing');
      const required = await startFor(t, `mysql://root@127.0.0.1:${proxy.port}/?${mode('required')}`);
      t.match(await cipherOf(required), /AES|CHACHA/, 'required encrypts without a check of the certificate');
      const chain = await startFor(t, `mysql://root@127.0.0.1:${proxy.port}/?${trusting('verify-ca', issuer)}`);
      t.match(await cipherOf(chain), /AES|CHACHA/, 'verify-ca does not check the name');
      const name = await startFor(t, `mysql://root@localhost:${proxy.port}/?${trusting('verify-full', issuer)}`);
      t.match(await cipherOf(name), /AES|CHACHA/, 'verify-full, by the name in the certificate');

      await t.test(`traffic to and from ${kind} is unreadable for a third party`, async (t) => {
        for (const [sluice, passed, isEncrypted] of [
          [disabled, plainProxy, false],
          [required, proxy, true],
        ] as const) {
          passed.forget();
          // Statement and result each contain a word that the other does not.
          const { rows } = await query(sluice, "SELECT REVERSE('drow-desrever'), 'plain-word'");
          t.strictSame(rows, [['reversed-word', 'plain-word']]);
          const bytes = passed.recorded();
          t.ok(bytes.length > 0, 'bytes were sent');
          for (const word of ['drow-desrever', 'reversed-word', 'plain-word']) {
            t.equal(bytes.includes(word), !isEncrypted, `${word}, ${isEncrypted ? 'encrypted' : 'plain'}`);
          }
        }
      });

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

      const expiresAt = await makeCertificate(`brief-${kind}`, briefSecs);
      await present(server, `brief-${kind}`, inUse);
      await delay(expiresAt - Date.now());
      for (const sluice of [chain, name, address]) await refuses(t, sluice, /certificate does not pass .*expired/);
      t.match(await cipherOf(required), /AES|CHACHA/);

      await t.test(`no login is sent to a ${kind} without TLS if the URL requires TLS`, async (t) => {
        const withoutTls = await startServer(kind, noTls[kind]);
        t.teardown(() => withoutTls.stop());
        for (const each of [proxy, plainProxy]) {
          each.forwardTo(withoutTls.port);
          each.forget();
        }
        for (const sluice of [required, chain, name]) {
          await refuses(t, sluice, /does not offer TLS.*ssl-mode of --mysql_url.*turn TLS on/);
        }
        t.ok(proxy.recorded().length > 0, 'bytes were sent');
        t.notOk(proxy.recorded().includes('root'), 'no user name was sent');
        t.equal(await cipherOf(disabled), '');
        t.ok(plainProxy.recorded().includes('root'), 'the proxy records user names that are sent in plain text');
      });
    },
  );
}

/** A server with the certificate `ofName`, which `present` can replace. */
async function startWith(inUse: string, kind: DatabaseKind): Promise<PrivateServer> {
  await copy('ofName', inUse);
  return await startServer(kind, [`--ssl-cert=${inUse}.pem`, `--ssl-key=${inUse}.key`, `--ssl-ca=${issuer}`]);
}

/** Makes a server present another certificate from now on. */
async function present(server: PrivateServer, name: CertificateName, inUse: string): Promise<void> {
  await copy(name, inUse);
  await server.sql(server.kind === 'mariadb' ? 'FLUSH SSL' : 'ALTER INSTANCE RELOAD TLS');
}

async function copy(name: CertificateName, inUse: string): Promise<void> {
  for (const end of ['pem', 'key']) await copyFile(join(folder, `${name}.${end}`), `${inUse}.${end}`);
}

/** @returns the URL of a service that logs in again for every request */
async function startFor(t: Test, url: string): Promise<string> {
  const sluice = await startSluice(['--mysql_url', url, '--auth_cache_secs=0', '--worker_threads=1']);
  t.teardown(() => sluice.stop());
  return sluice.url;
}

/** The cipher of the connection as the database reports it; empty without encryption. */
async function cipherOf(sluice: string): Promise<unknown> {
  return (await query(sluice, "SHOW SESSION STATUS LIKE 'Ssl_cipher'")).rows[0]?.[1];
}

async function refuses(t: Test, sluice: string, reason: RegExp): Promise<void> {
  const reply = await post(sluice, { sql: 'SELECT 1' });
  t.equal(reply.status, 503, reply.text);
  t.match(reply.text, reason);
  t.notOk(reply.text.trimEnd().includes('\n'), 'it is one line');
}

interface RecordingProxy {
  readonly port: number;
  /** All bytes in both directions since the last `forget`. */
  recorded(): Buffer;
  forget(): void;
  /** Closes all connections, and forwards to another port from now on. */
  forwardTo(port: number): void;
}

/** Starts a TCP proxy that records all bytes. */
async function startRecordingProxy(t: Test, port: number): Promise<RecordingProxy> {
  const chunks: Buffer[] = [];
  const sockets = new Set<Socket>();
  let target = port;
  const between = createServer((near) => {
    const far = connect(target, '127.0.0.1');
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.on('error', () => to.destroy());
      from.on('close', () => sockets.delete(from));
      from.on('data', (chunk) => chunks.push(chunk));
      from.pipe(to);
    }
  });
  between.listen(0, '127.0.0.1');
  await once(between, 'listening');
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  t.teardown(() => {
    cut();
    between.close();
  });
  return {
    port: (between.address() as AddressInfo).port,
    recorded: () => Buffer.concat(chunks),
    forget: () => {
      chunks.length = 0;
    },
    forwardTo: (port) => {
      target = port;
      cut();
    },
  };
}

/** @returns the file of the issuer's certificate */
async function makeIssuer(name: string): Promise<string> {
  const file = join(folder, `${name}.pem`);
  const key = join(folder, `${name}.key`);
  await run('openssl', [
    ...['req', '-x509', ...newKey, '-days', '2', '-subj', `/CN=sluice test ${name}`],
    ...['-keyout', key, '-out', file],
  ]);
  return file;
}

/** @returns the expiry time, in ms since 1970 */
async function makeCertificate(name: CertificateName, secs: number): Promise<number> {
  const path = (end: string) => join(folder, `${name}.${end}`);
  await run('openssl', [
    ...['req', ...newKey, '-subj', `/CN=sluice test ${name}`],
    ...['-keyout', path('key'), '-out', path('csr')],
  ]);
  await writeFile(path('index'), '');
  await writeFile(
    path('conf'),
    `[ca]\ndefault_ca=own\n[own]\ndatabase=${path('index')}\nnew_certs_dir=${folder}\nrand_serial=yes\ndefault_md=sha256\n` +
      `policy=any\nx509_extensions=holder\n[any]\ncommonName=supplied\n` +
      `[holder]\nsubjectAltName=${certificates[name]}\n`,
  );
  // Whole seconds, without separators: 20240229120000Z.
  const expiresAt = Math.ceil(Date.now() / 1_000 + secs) * 1_000;
  const end = new Date(expiresAt).toISOString().replace(/[-:T]|\.\d+/g, '');
  await run('openssl', [
    ...['ca', '-batch', '-notext', '-config', path('conf'), '-enddate', end, '-cert', issuer],
    ...['-keyfile', join(folder, 'issuer.key'), '-in', path('csr'), '-out', path('pem')],
  ]);
  return expiresAt + 1_000;
}
