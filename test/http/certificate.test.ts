import { writeFile } from 'node:fs/promises';
import t from 'tap';
import { readCertificate } from '#src/http/certificate.js';
import { makeCertificate } from '../support/certificates.ts';

t.test('a certificate and its key are read', async (t) => {
  const { certFile, keyFile, cert, key } = await makeCertificate(t);
  t.same(await readCertificate(certFile, keyFile), { cert, key });
});

t.test('an invalid certificate or key is an error in one line that names the option and the file', async (t) => {
  const one = await makeCertificate(t);
  const other = await makeCertificate(t);
  const bad = `${one.certFile}.bad`;
  const folder = one.certFile.slice(0, one.certFile.lastIndexOf('/'));
  await writeFile(bad, 'no PEM');
  const cases: [certFile: string, keyFile: string, message: string | RegExp][] = [
    [`${bad}.none`, one.keyFile, `--tls_cert ${bad}.none cannot be read: ENOENT`],
    [one.certFile, `${bad}.none`, `--tls_key ${bad}.none cannot be read: ENOENT`],
    [folder, one.keyFile, `--tls_cert ${folder} cannot be read: EISDIR`],
    [bad, one.keyFile, new RegExp(`^--tls_cert ${bad} is not a certificate in PEM: `)],
    [one.certFile, bad, new RegExp(`^--tls_key ${bad} is not a private key in PEM`)],
    [one.keyFile, one.keyFile, /^--tls_cert \S+ is not a certificate/],
    [one.certFile, other.keyFile, `--tls_key ${other.keyFile} is not the private key of --tls_cert ${one.certFile}`],
  ];
  for (const [certFile, keyFile, message] of cases) {
    const error: unknown = await readCertificate(certFile, keyFile).catch((error: unknown) => error);
    t.match((error as Error).message, message);
    t.notMatch((error as Error).message, /\n|BEGIN/);
  }
});
