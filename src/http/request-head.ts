import type { IncomingMessage } from 'node:http';
import { isIPv6 } from 'node:net';
import type { HostNames } from './host-names.ts';
import { httpErrors } from './http-error.ts';

/** A DNS name has at most 253 characters; percent codes and the port take more. */
const hostLengthMax = 1_024;

/** Checks the parts of a request's head that Node leaves to the application. */
export class HeadCheck {
  readonly #hostNames: HostNames;
  /** The last Host that was allowed: nearly all requests have the same one. */
  #allowedHost: string | null = null;

  constructor(hostNames: HostNames) {
    this.#hostNames = hostNames;
  }

  /** @throws HttpError (RFC 9110, sections 7.4 and 10.1.1; RFC 9112, section 3.2) */
  check({ headers, rawHeaders, httpVersion }: IncomingMessage): void {
    const { host, expect } = headers;
    if (host !== undefined) {
      // Node keeps the first of several.
      if (countHosts(rawHeaders) > 1) throw httpErrors.badHost('the request has more than one Host header');
      if (host !== this.#allowedHost) this.#checkHost(host);
    }
    if (httpVersion !== '1.1') return;
    if (host === undefined) throw httpErrors.badHost('the request has no Host header');
    if (expect !== undefined && expect.toLowerCase() !== '100-continue') {
      throw httpErrors.expectationFailed(expect.slice(0, 50));
    }
  }

  #checkHost(host: string): void {
    if (!isHost(host)) throw httpErrors.badHost('the Host header is not a host name or address with an optional port');
    if (!this.#hostNames.allows(host)) throw httpErrors.misdirected(host.slice(0, 100));
    this.#allowedHost = host;
  }
}

/** @param rawHeaders names and values in turn */
function countHosts(rawHeaders: readonly string[]): number {
  let count = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] as string;
    if (name.length === 4 && name.toLowerCase() === 'host') count++;
  }
  return count;
}

/** `uri-host [":" port]` (RFC 3986, section 3.2.2: an address in brackets, or a registered name, which may be empty). */
function isHost(value: string): boolean {
  if (value.length > hostLengthMax) return false;
  if (!value.startsWith('[')) return /^(?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*(?::\d*)?$/.test(value);
  const end = value.indexOf(']');
  return isIPv6(value.slice(1, end)) && /^(?::\d*)?$/.test(value.slice(end + 1));
}

export function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

/**
 * Whether the client waits for another protocol. Node 20 loses bytes that follow such a request in the same chunk, so the answer
 * must be the last of its connection. Clients that offer h2c repeat the offer with every request and stay with HTTP/1.1.
 */
export function willSwitch({ headers: { upgrade } }: IncomingMessage): boolean {
  return upgrade !== undefined && upgrade.toLowerCase() !== 'h2c';
}
