import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';

/** The certificate chain of the listener and the private key of its first certificate, both PEM. */
export interface Certificate {
  readonly cert: Buffer;
  readonly key: Buffer;
}

/**
 * Reads the two files, and checks that they belong together.
 * @throws Error of one line, which names the option and the file that is wrong
 */
export async function readCertificate(certFile: string, keyFile: string): Promise<Certificate> {
  const cert = await read('--tls_cert', certFile);
  const key = await read('--tls_key', keyFile);
  const first = parse('--tls_cert', certFile, 'a certificate in PEM', () => new X509Certificate(cert));
  const secret = parse('--tls_key', keyFile, 'a private key in PEM without a passphrase', () => createPrivateKey(key));
  if (!first.checkPrivateKey(secret)) {
    throw new Error(`--tls_key ${keyFile} is not the private key of --tls_cert ${certFile}`);
  }
  // OpenSSL refuses some pairs that match, such as those with a key that is too short.
  parse('--tls_cert', certFile, 'a certificate that can be served', () => createSecureContext({ cert, key }));
  return { cert, key };
}

async function read(option: string, file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    throw new Error(`${option} ${file} cannot be read: ${(error as NodeJS.ErrnoException).code}`);
  }
}

function parse<T>(option: string, file: string, expected: string, attempt: () => T): T {
  try {
    return attempt();
  } catch (error) {
    throw new Error(`${option} ${file} is not ${expected}: ${(error as Error).message.replace(/\s+/g, ' ')}`);
  }
}
