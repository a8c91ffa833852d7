import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { DatabaseAddress, DatabaseTls } from '../wire/messages.ts';
import { ConfigError } from './config-error.ts';

/** The database, and the server's own login to it. */
export interface DatabaseConfig {
  readonly address: DatabaseAddress;
  /** The database of statements that name none; null: see `Login`. */
  readonly name: string | null;
  readonly user: string;
  readonly password: string;
}

/**
 * Parses `--mysql_url` and reads the certificates that it names.
 * @returns null if the URL is empty
 * @throws ConfigError whose message does not contain the URL, as the URL may contain a password
 */
export function parseDatabaseUrl(url: string): DatabaseConfig | null {
  if (url === '') return null;
  if (url.startsWith('/')) return { address: { socketPath: url }, name: null, user: '', password: '' };
  if (url.includes('#')) throw new ConfigError("--mysql_url has a '#'; in a name or a password it is written %23");
  const parsed = URL.canParse(url) ? new URL(url) : null;
  if (parsed === null || !['mysql:', 'mariadb:'].includes(parsed.protocol) || parsed.hostname === '') {
    throw new ConfigError(
      '--mysql_url must be mysql://[user[:password]@]host[:port][/database] or the path of a socket',
    );
  }
  if (parsed.port === '0') throw new ConfigError('--mysql_url has the port 0, on which no database listens');
  const { socket, ...ssl } = readParameters(parsed.searchParams);
  if (socket === '') throw new ConfigError('--mysql_url has an empty socket; it takes the path of a Unix socket');
  const tls = readTls(ssl['ssl-mode'], ssl['ssl-ca']);
  if (socket !== undefined && Object.keys(ssl).length > 0) {
    throw new ConfigError('--mysql_url names a socket, which never leaves this machine: leave ssl-mode and ssl-ca out');
  }
  const path = parsed.pathname.slice(1);
  if (path.includes('/')) {
    throw new ConfigError(
      '--mysql_url has more than one name after the host; a slash in a database name is written %2F',
    );
  }
  const name = decode(path);
  return {
    address:
      socket === undefined
        ? { host: parsed.hostname.replace(/^\[|\]$/g, ''), port: Number(parsed.port || 3306), tls }
        : { socketPath: socket },
    name: name === '' ? null : name,
    user: decode(parsed.username),
    password: decode(parsed.password),
  };
}

const urlParameters = ['socket', 'ssl-mode', 'ssl-ca'] as const;

type UrlParameters = Partial<Record<(typeof urlParameters)[number], string>>;

function readParameters(search: URLSearchParams): UrlParameters {
  const parameters: UrlParameters = {};
  for (const [key, value] of search) {
    const name = urlParameters.find((known) => known === key);
    if (name === undefined) {
      throw new ConfigError(`--mysql_url has an unknown parameter '${key}'; it takes ${urlParameters.join(', ')}`);
    }
    if (parameters[name] !== undefined) throw new ConfigError(`--mysql_url gives ${name} twice`);
    parameters[name] = value;
  }
  return parameters;
}

/** Includes the names that MySQL's own clients use (MySQL manual, "--ssl-mode"), and two short ones. */
const tlsModes: ReadonlyMap<string, DatabaseTls['mode'] | 'disabled'> = new Map([
  ['disabled', 'disabled'],
  ['disable', 'disabled'],
  ['required', 'required'],
  ['require', 'required'],
  ['verify-ca', 'verify-ca'],
  ['verify-full', 'verify-full'],
  ['verify-identity', 'verify-full'],
]);

function readTls(modeName = 'disabled', caFile?: string): DatabaseTls | null {
  const mode = tlsModes.get(modeName.toLowerCase().replaceAll('_', '-'));
  if (mode === undefined) {
    throw new ConfigError(
      `--mysql_url has the ssl-mode '${modeName}'; it must be one of disabled, required, verify-ca, verify-full`,
    );
  }
  if (caFile === undefined) return mode === 'disabled' ? null : { mode, ca: null };
  // A CA is given to have certificates checked, and these modes do not check them.
  if (mode === 'disabled' || mode === 'required') {
    throw new ConfigError('--mysql_url has an ssl-ca, which only ssl-mode=verify-ca and ssl-mode=verify-full look at');
  }
  return { mode, ca: readCertificates(caFile) };
}

function readCertificates(file: string): string {
  try {
    const pem = readFileSync(file, 'utf8');
    // Checks the first certificate only. TLS ignores a file without any, and then trusts no certificate.
    new X509Certificate(pem);
    return pem;
  } catch (error) {
    const { syscall, message } = error as NodeJS.ErrnoException;
    const reason = syscall === undefined ? 'it holds no certificate (PEM)' : message;
    throw new ConfigError(`--mysql_url has the ssl-ca '${file}', which cannot be used: ${reason}`);
  }
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw new ConfigError('--mysql_url has a bad percent code; a percent sign itself is written %25');
  }
}
