import { randomUUID } from 'node:crypto';
import { type EventEmitter, once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import mysql from 'mysql2';
import t from 'tap';
import type { ColumnDefinition } from '#src/worker/columns.js';
import { Connection, Pipeline } from '#src/worker/connection.js';
import { connectRefusal, type DriverError } from '#src/worker/failures.js';
import { type DatabaseServer, sharedServers } from '../support/servers.ts';

// Both servers share the machine with whatever else it does.
t.setTimeout(240_000);

const packageFile = new URL('../../../package.json', import.meta.url);

t.test('the driver is the version whose inside is known', (t) => {
  const { dependencies } = JSON.parse(readFileSync(packageFile, 'utf8')) as { dependencies: Record<string, string> };
  const pinned = dependencies['mysql2'] ?? '';
  t.match(pinned, /^\d+\.\d+\.\d+$/, 'no range');
  const installed = createRequire(import.meta.url)('mysql2/package.json') as { version: string };
  t.equal(installed.version, pinned);
  t.end();
});

/** The inside of the driver, as loosely as a test that looks for changes must see it. */
type Inside = Record<string, unknown> & { constructor: { name: string; prototype: Record<string, unknown> } };
const driverInside = mysql as unknown as {
  createQuery(sql: string, values: undefined, done: undefined, config: object): Inside;
};

t.test("the driver's command for a statement is a machine whose states are methods", (t) => {
  const command = driverInside.createQuery('', undefined, undefined, {});
  t.equal(command.constructor.name, 'Query');
  const methods = command.constructor.prototype;
  t.type(methods['start'], 'function');
  t.type(methods['execute'], 'function', 'packets come to execute, which hands them to the state');
  t.equal((methods['start'] as (...args: never) => unknown).length, 2, 'start takes a packet and the connection');
  t.ok('next' in command, 'the state is kept in next');
  t.ok('onResult' in command, 'an error goes to onResult');
  t.ok('sql' in command);
  t.end();
});

for (const server of await sharedServers()) {
  const { kind } = server;

  t.test(`the packets of the driver are as the hook takes them (${kind})`, async (t) => {
    const connection = mysql.createConnection({ socketPath: server.socketPath, user: 'root' });
    t.teardown(() => connection.destroy());
    const packets: Inside[] = [];
    const Query = driverInside.createQuery('', undefined, undefined, {}).constructor as unknown as new (
      options: object,
      done: (error: Error) => void,
    ) => { start(packet: unknown, connection: unknown): unknown };
    const inside = await new Promise<Inside>((resolve, reject) => {
      let connectionOfCommand: unknown;
      const state = (packet: Inside): unknown => {
        packets.push({ ...packet, isEOF: (packet['isEOF'] as () => boolean).call(packet) } as unknown as Inside);
        // Column count, one column, its end, one row, the end.
        if (packets.length < 5) return state;
        resolve(connectionOfCommand as Inside);
        return null;
      };
      class Hook extends Query {
        override start(packet: unknown, connection: unknown): unknown {
          connectionOfCommand = connection;
          super.start(packet, connection);
          return state;
        }
      }
      (connection as unknown as { addCommand(command: object): void }).addCommand(
        new Hook({ sql: "SELECT 'abc'" }, reject),
      );
    });
    const payloads = packets.map((packet) => {
      t.ok(Buffer.isBuffer(packet['buffer']));
      return (packet['buffer'] as Buffer).subarray(packet['offset'] as number, packet['end'] as number);
    });
    t.same(payloads[0], Buffer.of(1));
    t.same(payloads[3], Buffer.from('\u0003abc'));
    t.same(
      packets.map((packet) => packet['isEOF']),
      [false, false, true, false, true],
      'the old end packets are in use',
    );
    t.equal(inside['_mariadbExtendedMetadata'], kind === 'mariadb');
    t.type(inside['threadId'], 'number');
    for (const method of ['addCommand', 'changeUser', 'pause', 'resume', 'end']) t.type(inside[method], 'function');
    t.ok('database' in (inside['config'] as object));
    t.type((inside['stream'] as Inside)['destroy'], 'function');
  });

  t.test(`a statement's columns, rows and end are told in order (${kind})`, async (t) => {
    const connection = await open(t, server);
    t.equal(connection.isMariadb, kind === 'mariadb');
    const told: unknown[] = [];
    const ending = await connection.execute("SELECT 1 AS a, 'é' AS b UNION ALL SELECT 2, NULL", {
      columns: (definitions) => told.push(definitions.map(({ name }: ColumnDefinition) => name)),
      row: (bytes, start, end) => told.push(bytes.toString('utf8', start, end)),
    });
    t.strictSame(told[0], ['a', 'b']);
    t.strictSame(told[1], '\u00011\u0002é');
    t.equal(told.length, 3);
    t.strictSame(ending, {
      outcome: { affectedRows: '0', lastInsertId: null, warnings: 0 },
      moreResults: false,
      leftUtf8: false,
    });
    t.strictSame(await connection.query("SELECT 'x', NULL, ''"), [['x', null, '']]);
    const done = await connection.execute('DO 1', { columns: () => t.fail(), row: () => t.fail() });
    t.equal(done.outcome.affectedRows, '0');
  });

  t.test(`an error is the server's own, and the connection goes on after it (${kind})`, async (t) => {
    const connection = await open(t, server);
    for (const [sql, errno, sqlState] of [
      ['SELEC', 1064, '42000'],
      ['', 1065, '42000'],
      ["SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 31234, MESSAGE_TEXT = 'é 長'", 31_234, '45000'],
      ['SELECT 1; SELECT 2', 1064, '42000'],
    ] as const) {
      const error = await connection.query(sql).catch((error: unknown) => error as DriverError);
      t.match(error, { errno, sqlState }, sql);
    }
    const error = await connection
      .query("SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'é 長'")
      .catch((error: unknown) => error as DriverError);
    t.match(error, { sqlMessage: 'é 長' });
    t.strictSame(await connection.query('SELECT 5'), [['5']]);
  });

  t.test(`an error in the midst of the rows comes after them (${kind})`, async (t) => {
    const connection = await open(t, server);
    let rows = 0;
    const sql = 'SELECT 1 UNION ALL SELECT (SELECT 1 UNION ALL SELECT 2)';
    await t.rejects(connection.execute(sql, { columns: () => {}, row: () => rows++ }), {
      code: 'ER_SUBQUERY_NO_1_ROW',
    });
    t.ok(rows <= 1);
    t.strictSame(await connection.query('SELECT 5'), [['5']]);
  });

  t.test(`a connection that the server ends is lost once, and says so to its statement (${kind})`, async (t) => {
    const connection = await open(t, server);
    let lost = 0;
    connection.on('lost', () => lost++);
    const reason = once(connection, 'lost');
    const statement = connection.query('SELECT SLEEP(100)').catch((error: unknown) => error as DriverError);
    await runs(server, connection.id);
    await server.sql(`KILL CONNECTION ${connection.id}`);
    t.type((await reason)[0], 'string');
    t.ok((await statement) instanceof Error);
    await new Promise(setImmediate);
    t.equal(lost, 1);
  });

  t.test(`a connection that is idle when the server ends it is lost too (${kind})`, async (t) => {
    const connection = await open(t, server);
    const lost = once(connection, 'lost');
    await server.sql(`KILL CONNECTION ${connection.id}`);
    await lost;
    t.pass();
  });

  t.test(`close and destroy end the connection without calling it lost (${kind})`, async (t) => {
    for (const method of ['close', 'destroy'] as const) {
      const connection = await open(t, server);
      const { id } = connection;
      connection.on('lost', () => t.fail('it was let go, not lost'));
      connection[method]();
      await until(async () => (await server.sql(`${processes} WHERE ID = ${id}`)) === '0');
    }
    t.pass();
  });

  t.test(`a paused connection reads nothing more, and all of it when resumed (${kind})`, async (t) => {
    const connection = await open(t, server);
    const total = 200_000;
    let rows = 0;
    const sql = `WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
      SELECT a.i, REPEAT('x', 200) FROM n a, n b LIMIT ${total}`;
    const setting = kind === 'mysql' ? 'cte_max_recursion_depth' : 'max_recursive_iterations';
    await connection.query(`SET ${setting} = 10000, net_write_timeout = 600`);
    const ended = connection.execute(sql, {
      columns: () => {},
      row: () => {
        rows++;
        if (rows === 10) connection.pause();
      },
    });
    // The server stops when the buffers of both sockets are full: it waits to write.
    await until(async () => {
      const state = await server.sql(`SELECT STATE FROM information_schema.PROCESSLIST WHERE ID = ${connection.id}`);
      return rows >= 10 && /writing to net|sending/i.test(state);
    });
    const paused = rows;
    await server.sql('DO SLEEP(0.2)');
    t.equal(rows, paused, 'no row comes while it is paused');
    t.equal(paused, 10, 'not even of those that had been read');
    connection.resume();
    await ended;
    t.equal(rows, total);
  });

  t.test(`commands in one write are answered each, whatever becomes of the others (${kind})`, async (t) => {
    const connection = await open(t, server);
    const commands = new Pipeline([
      { type: 'query', sql: 'SET @x = 7' },
      { type: 'query', sql: 'SELECT 1 AS a, 2 AS b UNION ALL SELECT 3, 4' },
      { type: 'query', sql: 'SELECT nothing' },
      { type: 'query', sql: 'SELECT 1 LIMIT 0' },
      { type: 'init db', database: uniqueName() },
      { type: 'init db', database: 'mysql' },
    ]);
    const errors = await connection.pipeline(commands);
    t.strictSame(
      errors.map((error) => error?.errno ?? null),
      [null, null, 1054, null, 1049, null],
    );
    t.strictSame(await connection.query('SELECT @x, DATABASE()'), [['7', 'mysql']]);
    t.strictSame(await connection.pipeline(new Pipeline([{ type: 'reset connection' }])), [null]);
    t.strictSame(await connection.query('SELECT @x'), [[null]]);
  });

  t.test(`a login is refused with the server's reason, and nothing is left behind (${kind})`, async (t) => {
    const where = { address: { socketPath: server.socketPath }, timeoutMs: 5_000 };
    const refused = await Connection.open({ ...where, user: uniqueName(), password: 'wrong' }).catch((error) => error);
    t.match(connectRefusal(refused as DriverError), { kind: 'denied', failure: { sqlstate: '28000' } });
    const overTcp = { address: { host: '127.0.0.1', port: server.port, tls: 'off' as const }, timeoutMs: 5_000 };
    const connection = await Connection.open({ ...overTcp, user: 'root', password: '' });
    t.strictSame(await connection.query('SELECT 1'), [['1']]);
    connection.close();
  });
}

t.test('a server that is not there, hangs up or says nothing is unavailable', async (t) => {
  const options = { user: 'root', password: '', timeoutMs: 300 };
  const socketPath = join(tmpdir(), uniqueName());
  const absent = await Connection.open({ ...options, address: { socketPath } }).catch((error) => error);
  t.match(connectRefusal(absent as DriverError), { kind: 'unavailable', failure: { code: 2002 } });

  for (const behaviour of ['hangs up', 'says nothing'] as const) {
    const sockets = new Set<{ destroy(): void }>();
    const stub = createServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => {});
      if (behaviour === 'hangs up') socket.destroy();
    });
    stub.listen(0, '127.0.0.1');
    await once(stub, 'listening');
    t.teardown(() => {
      for (const socket of sockets) socket.destroy();
      stub.close();
    });
    const { port } = stub.address() as { port: number };
    const address = { host: '127.0.0.1', port, tls: 'off' as const };
    const error = await Connection.open({ ...options, address }).catch((error) => error);
    t.match(connectRefusal(error as DriverError), { kind: 'unavailable', failure: { code: 2002 } }, behaviour);
  }
});

t.test('a server that asks for a file all the same gets none, and loses the connection', async (t) => {
  const received: unknown[] = [];
  let asked = false;
  const stub = mysql.createServer((peer) => {
    const { stream, serverHandshake } = peer as unknown as {
      stream: NodeJS.ReadWriteStream;
      serverHandshake(this: object, options: object): void;
    };
    serverHandshake.call(peer, {
      protocolVersion: 10,
      serverVersion: '8.0.0',
      connectionId: 1,
      statusFlags: 2,
      characterSet: 45,
      capabilityFlags: 0x00ff_ffff,
      authCallback: (_: unknown, done: (problem: null) => void) => done(null),
    });
    const events = peer as unknown as EventEmitter;
    events.on('error', () => {});
    events.on('query', () => {
      asked = true;
      stream.on('data', (bytes) => received.push(bytes));
      stream.write(Buffer.concat([Buffer.of(12, 0, 0, 1, 0xfb), Buffer.from('/etc/passwd')]));
    });
  });
  const listener = (stub as unknown as { _server: Server })._server;
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  t.teardown(() => listener.close());
  const { port } = listener.address() as { port: number };
  const connection = await Connection.open({
    address: { host: '127.0.0.1', port, tls: 'off' },
    user: 'root',
    password: '',
    timeoutMs: 5_000,
  });
  const lost = once(connection, 'lost');
  await t.rejects(connection.query('SELECT 1'));
  await lost;
  t.ok(asked);
  t.strictSame(received, []);
});

const processes = 'SELECT COUNT(*) FROM information_schema.PROCESSLIST';

async function open(t: { teardown(work: () => void): void }, server: DatabaseServer): Promise<Connection> {
  const connection = await Connection.open({
    address: { socketPath: server.socketPath },
    user: 'root',
    password: '',
    timeoutMs: 10_000,
  });
  t.teardown(() => connection.destroy());
  return connection;
}

/** Waits until the server runs a statement of that connection. */
async function runs(server: DatabaseServer, id: number): Promise<void> {
  await until(async () => (await server.sql(`${processes} WHERE ID = ${id} AND COMMAND = 'Query'`)) === '1');
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 20_000;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error('what was waited for did not come');
    await delay(20);
  }
}

function uniqueName(): string {
  return `connection_${randomUUID().replaceAll('-', '')}`;
}
