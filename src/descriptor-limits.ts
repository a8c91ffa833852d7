import type { Config } from './config/config.ts';
import type { ServiceEvent } from './events.ts';

/** File descriptors that no option limits: the program's files, its threads, kills, and connections that are being closed. */
const otherDescriptors = 256;

/**
 * Lowers --connections_max, --logins_max, --spill_files_max and --http_connections_max so that there are file descriptors for all
 * of them at once. Those to the database get half of the descriptors at most, and files at least a quarter of the rest, if they
 * need it.
 */
export function withinDescriptors(config: Config, descriptors: number): Config {
  const { http, connections, users, disk } = config;
  const available = descriptors - Math.min(otherDescriptors, Math.ceil(descriptors / 2));
  const scale = Math.min(1, available / 2 / (connections.connectionsMax + users.loginsMax));
  const connectionsMax = Math.max(1, Math.floor(connections.connectionsMax * scale));
  const loginsMax = Math.max(1, Math.floor(users.loginsMax * scale));
  const left = available - connectionsMax - loginsMax;
  const filesLeft = Math.max(Math.floor(left / 4), left - http.httpConnectionsMax);
  const spillFilesMax = Math.min(disk.spillFilesMax, filesLeft);
  const httpConnectionsMax = Math.max(1, Math.min(http.httpConnectionsMax, left - spillFilesMax));
  return {
    ...config,
    http: { ...http, httpConnectionsMax },
    connections: { ...connections, connectionsMax },
    users: { ...users, loginsMax },
    disk: { ...disk, spillFilesMax },
  };
}

/** Reports the limits that `withinDescriptors` has lowered. */
export function loweredLimits(given: Config, lowered: Config): ServiceEvent[] {
  const { connectionsMax } = lowered.connections;
  const { loginsMax } = lowered.users;
  const { spillFilesMax } = lowered.disk;
  const { httpConnectionsMax } = lowered.http;
  const leaves = 'the limit of file descriptors (ulimit -n) leaves room for';
  const events: ServiceEvent[] = [];
  if (connectionsMax < given.connections.connectionsMax || loginsMax < given.users.loginsMax) {
    const reason = `${leaves} ${connectionsMax} connections to the database and ${loginsMax} logins at once`;
    events.push({ type: 'connections_limited', reason });
  }
  if (spillFilesMax < given.disk.spillFilesMax) {
    const reason = `${leaves} ${spillFilesMax} files of rows on disk beside the connections`;
    events.push({ type: 'spill_files_limited', reason });
  }
  if (httpConnectionsMax < given.http.httpConnectionsMax) {
    const reason = `${leaves} ${httpConnectionsMax} HTTP connections beside those to the database and rows on disk`;
    events.push({ type: 'http_connections_limited', reason });
  }
  return events;
}
