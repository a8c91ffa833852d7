import type { Credentials } from '../session/accounts.ts';
import { httpErrors } from './http-error.ts';

const colonCode = ':'.charCodeAt(0);
const quoteCode = "'".charCodeAt(0);

/** The longest user name of MariaDB, in characters; that of MySQL has 32. */
const userNameLengthMax = 128;

/**
 * The credentials of a request (RFC 7617). The password must not outlive the request. So the user name is not a slice of a text
 * that contains the password, since V8 keeps the whole text alive for a slice; and no regular expression is run on that text,
 * since V8 keeps the last text that was matched.
 * @param anonymous credentials of requests that have none; null: such requests are refused
 * @throws HttpError 401
 */
export function credentialsOf(authorization: string | undefined, anonymous: Credentials | null): Credentials {
  if (authorization === undefined) {
    if (anonymous !== null) return anonymous;
    throw httpErrors.unauthorized('log in with the user name and password of a database user, by HTTP Basic');
  }
  const header = authorization.trim();
  const blank = header.indexOf(' ');
  const token = header.slice(blank + 1).trimStart();
  if (blank < 0 || header.slice(0, blank).toLowerCase() !== 'basic' || token.includes(' ')) {
    throw httpErrors.unauthorized('the Authorization header is not of the form "Basic <base64>"');
  }
  const bytes = Buffer.from(token, 'base64');
  const end = token.includes('=') ? token.indexOf('=') : token.length;
  // Node skips characters that are not base64. Encoding the bytes again shows whether it did.
  const isWhole = bytes.toString('base64').replaceAll('=', '') === token.slice(0, end);
  if (!isWhole || !['', '=', '=='].includes(token.slice(end))) {
    throw httpErrors.unauthorized('the credentials are not base64');
  }
  const colon = bytes.indexOf(colonCode);
  if (colon < 0) throw httpErrors.unauthorized('the credentials have no colon between user name and password');
  if (bytes.includes(0)) throw httpErrors.unauthorized('the credentials contain a NUL character');
  const user = bytes.toString('utf8', 0, colon);
  checkUserName(user);
  return { user, password: bytes.toString('utf8', colon + 1) };
}

/**
 * Refuses a second spelling of an account's name, since limits count by name. MariaDB and MySQL remove single quotes around the
 * name in a login, and MariaDB truncates a name that is too long.
 */
function checkUserName(user: string): void {
  if (user.length > 1 && user.charCodeAt(0) === quoteCode && user.charCodeAt(user.length - 1) === quoteCode) {
    throw httpErrors.unauthorized('the user name is in quotes: give it without them');
  }
  if (user.length > userNameLengthMax && [...user].length > userNameLengthMax) {
    throw httpErrors.unauthorized(`the user name is longer than ${userNameLengthMax} characters`);
  }
}

const loggedUserBytesMax = 200;

/** The user name in a request, for the log; null if there is none. The password is not decoded. */
export function userOf(authorization: string | undefined): string | null {
  const header = authorization?.trim() ?? '';
  const blank = header.indexOf(' ');
  if (blank < 0 || header.slice(0, blank).toLowerCase() !== 'basic') return null;
  const token = header.slice(blank + 1).trimStart();
  const bytes = Buffer.from(token, 'base64');
  const colon = bytes.indexOf(colonCode);
  return colon <= 0 ? null : bytes.toString('utf8', 0, Math.min(colon, loggedUserBytesMax));
}
