/**
 * Many clients, each with a connection and at most one request of its own, as a program that is told by messages what to
 * do. Answers each message with a list of numbers when it has done so.
 */
import { HttpConnection } from './http-connection.ts';

export type PollerCommand =
  /** Opens connections, and uses each once. */
  | { readonly type: 'connect'; readonly url: string; readonly connections: number }
  /** Sends each statement on a connection that has not posted any. */
  | { readonly type: 'post'; readonly bodies: readonly object[] }
  /** Waits until so many statements have been answered; tells how long after their ends, in milliseconds. */
  | { readonly type: 'collect'; readonly answers: number };

/** The server's queue of connections to be accepted is not to overflow. */
const connectAtOnce = 100;

const idle: HttpConnection[] = [];
const lateMs: number[] = [];
let answered = (): void => {};

process.on('message', (command: PollerCommand) => {
  void obey(command).then((result) => process.send?.(result));
});

// The benchmark has been ended, however that came about.
process.on('disconnect', () => process.exit());

async function obey(command: PollerCommand): Promise<readonly number[]> {
  switch (command.type) {
    case 'connect':
      while (idle.length < command.connections) {
        const count = Math.min(connectAtOnce, command.connections - idle.length);
        idle.push(...(await Promise.all(Array.from({ length: count }, () => connect(command.url)))));
      }
      return [];
    case 'post':
      for (const body of command.bodies) void poll(body);
      return [];
    case 'collect':
      while (lateMs.length < command.answers) {
        await new Promise<void>((resolve) => {
          answered = resolve;
        });
      }
      return lateMs;
  }
}

async function connect(url: string): Promise<HttpConnection> {
  const connection = await HttpConnection.open(url);
  await connection.get('/health');
  return connection;
}

async function poll(body: object): Promise<void> {
  const connection = idle.pop();
  if (connection === undefined) throw new Error('there are more statements than connections');
  const { tail } = await connection.post('/v1/query', body);
  const arrivedAtMs = Date.now();
  const { data } = JSON.parse(tail) as { data: readonly (readonly [gotLock: number, endedAtSecs: string])[] };
  const [row] = data;
  if (row?.[0] !== 1) throw new Error(`a statement did not end by its lock: ${tail}`);
  lateMs.push(arrivedAtMs - Number(row[1]) * 1_000);
  answered();
}
