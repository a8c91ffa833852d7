import { isIP } from 'node:net';

/**
 * A label has up to 63 letters, digits, hyphens and underscores (container networks use underscores); a name has at most 253
 * bytes.
 */
const hostName = /^(?=.{1,253}$)[a-z0-9_](?:[a-z0-9_-]{0,62})(?:\.[a-z0-9_](?:[a-z0-9_-]{0,62}))*$/;
/** `host`, `host:port`, `[IPv6]` or `[IPv6]:port` (RFC 9110, section 7.2). */
const hostHeader = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]]+))(?::[0-9]{0,5})?$/;

/**
 * The host names by which the server may be addressed, against DNS rebinding: the owner of a web page can change its name to
 * resolve to 127.0.0.1 once a browser has loaded it. The browser then treats this server as the page's own origin, but sends
 * the page's name as Host. An IP address as Host is always allowed, since no DNS lookup is involved.
 */
export class HostNames {
  /** null: every name is allowed. */
  readonly #names: ReadonlySet<string> | null;

  /**
   * @param listeningHost the value of --http_handler_host
   * @param option the value of --http_host_names: names, comma-separated, or `*`
   * @throws Error of one line, which names the option and the value
   */
  constructor(listeningHost: string, option: string) {
    if (option.trim() === '*') {
      this.#names = null;
      return;
    }
    const names = option.trim() === '' ? [] : option.split(',').map((name) => parseName(name.trim()));
    this.#names = new Set(['localhost', foldName(listeningHost), ...names]);
  }

  /** Whether a request with this Host header may be served. */
  allows(host: string): boolean {
    if (this.#names === null) return true;
    const parts = hostHeader.exec(host);
    if (parts === null) return false;
    const [, bracketed, other = ''] = parts;
    if (bracketed !== undefined) return isIP(bracketed) === 6;
    const name = foldName(other);
    // Browsers resolve *.localhost themselves, to loopback (RFC 6761, section 6.3).
    return this.#names.has(name) || isIP(name) === 4 || name.endsWith('.localhost');
  }
}

function parseName(name: string): string {
  const folded = foldName(name);
  if (hostName.test(folded)) return folded;
  throw new Error(
    `--http_host_names has '${name}'; it must be a comma-separated list of host names without scheme and port, or *`,
  );
}

/** A name with a dot at its end is the same name. */
function foldName(name: string): string {
  return name.toLowerCase().replace(/\.$/, '');
}
