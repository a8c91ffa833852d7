// Certificates for tests, made by the openssl of this machine: each signs itself, and is for 127.0.0.1.

import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Test } from 'tap';

export interface CertificateFiles {
  readonly certFile: string;
  readonly keyFile: string;
  readonly cert: Buffer;
  readonly key: Buffer;
}

const run = promisify(execFile);

/** A certificate and its key, in a folder of their own that goes with the test. */
export async function makeCertificate(t: Test): Promise<CertificateFiles> {
  const folder = await mkdtemp(join(tmpdir(), 'certificate-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  const certFile = join(folder, 'cert.pem');
  const keyFile = join(folder, 'key.pem');
  await run('openssl', [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'],
    ...['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', keyFile, '-out', certFile],
  ]);
  return { certFile, keyFile, cert: await readFile(certFile), key: await readFile(keyFile) };
}
