/** A server whose database has a version. */
interface Versioned {
  /** The database's own; empty as long as it is not known. */
  readonly version: () => string;
}

export function versionHeader(server: Versioned): Record<string, string> {
  return { 'X-DATABEND-VERSION': versionOf(server) };
}

/** In the form that clients parse: three numbers, and what semver.org, version 2.0.0, allows behind them. */
export function versionOf(server: Versioned): string {
  const [, numbers, isMariadb] = /^(\d+\.\d+\.\d+)(.*mariadb)?/i.exec(server.version().replace(/^5\.5\.5-/, '')) ?? [];
  // Before the database has been asked: what all of them are at least. MariaDB once hid its own numbers behind 5.5.5.
  return numbers === undefined ? '5.7.0' : `${numbers}${isMariadb === undefined ? '' : '-MariaDB'}`;
}
