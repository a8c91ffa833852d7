import t from 'tap';
import type { Config } from '#src/config/config.js';
import { readCommand } from '#src/config/read-command.js';
import { loweredLimits, withinDescriptors } from '#src/descriptor-limits.js';

/** Of the process itself. */
const reserve = 256;

function configOf(...args: string[]): Config {
  const command = readCommand(args, {});
  if (command.type !== 'serve') throw new Error(`it is ${command.type}`);
  return command.config;
}

function limitsOf({ http, connections, users, disk }: Config): number[] {
  return [connections.connectionsMax, users.loginsMax, disk.spillFilesMax, http.httpConnectionsMax];
}

t.test('with any number of descriptors and any options, all limits together are within the descriptors', async (t) => {
  for (const args of [
    [],
    ['--connections_max', '100000'],
    ['--logins_max', '10000'],
    ['--spill_files_max', '1000000'],
    ['--http_connections_max', '1'],
    ['--http_connections_max', '1000000', '--spill_files_max', '1000000', '--connections_max', '100000'],
    ['--queries_max', '10000000', '--unread_per_user_max', '10000000'],
  ]) {
    const given = configOf(...args);
    for (const descriptors of [64, 100, 256, 300, 512, 600, 1_024, 4_096, 20_000, 65_536, 1_048_576]) {
      const lowered = limitsOf(withinDescriptors(given, descriptors));
      const sum = lowered.reduce((a, b) => a + b);
      const what = `${args.join(' ')} with ${descriptors}: ${lowered.join(', ')}`;
      t.ok(sum + Math.min(reserve, descriptors / 2) <= descriptors, what);
      for (const [index, limit] of lowered.entries()) {
        t.ok(limit >= 1 && limit <= (limitsOf(given)[index] ?? 0), what);
      }
    }
  }
});

t.test('limits that fit are not lowered, and what is not used by one is left to another', async (t) => {
  const given = configOf();
  t.strictSame(limitsOf(withinDescriptors(given, Number.POSITIVE_INFINITY)), limitsOf(given));
  t.strictSame(loweredLimits(given, withinDescriptors(given, 1_048_576)), []);
  const few = configOf('--http_connections_max', '100', '--spill_files_max', '400');
  t.strictSame(limitsOf(withinDescriptors(few, 1_024)), [128, 64, 400, 100]);
});

t.test('each limit that is lowered is reported with its value', async (t) => {
  const given = configOf('--connections_max', '600');
  const lowered = withinDescriptors(given, 1_024);
  const [connections, logins, files, http] = limitsOf(lowered);
  t.match(loweredLimits(given, lowered), [
    { type: 'connections_limited', reason: `${connections} connections to the database and ${logins} logins` },
    { type: 'spill_files_limited', reason: `${files} files` },
    { type: 'http_connections_limited', reason: `${http} HTTP connections` },
  ]);
});
