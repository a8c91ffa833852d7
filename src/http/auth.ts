import type { Credentials } from '../session/accounts.ts';
import { httpErrors } from './http-error.ts';

/**
 * The credentials of a request (RFC 7617), or those of anybody if the operator allows it.
 * @throws HttpError 401
 */
export function credentialsOf(authorization: string | undefined, anonymous: Credentials | null): Credentials {
  if (authorization === undefined) {
    if (anonymous !== null) return anonymous;
    throw httpErrors.unauthorized('log in with the user name and password of a database user, by HTTP Basic');
  }
  const [scheme, token, ...rest] = authorization.trim().split(/ +/);
  if (scheme?.toLowerCase() !== 'basic' || token === undefined || rest.length > 0) {
    throw httpErrors.unauthorized('the Authorization header is not of the form "Basic <base64>"');
  }
  const bytes = Buffer.from(token, 'base64');
  // Node skips what is not base64; the way back shows whether something was skipped.
  if (!/^[^=]*={0,2}$/.test(token) || bytes.toString('base64').replaceAll('=', '') !== token.replaceAll('=', '')) {
    throw httpErrors.unauthorized('the credentials are not base64');
  }
  const pair = bytes.toString('utf8');
  const colon = pair.indexOf(':');
  if (colon < 0) throw httpErrors.unauthorized('the credentials have no colon between user name and password');
  if (pair.includes('\0')) throw httpErrors.unauthorized('the credentials contain a NUL character');
  return { user: pair.slice(0, colon), password: pair.slice(colon + 1) };
}
