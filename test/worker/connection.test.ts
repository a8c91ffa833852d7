import { createHash, randomUUID } from 'node:crypto';
import { type EventEmitter, once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { TLSSocket } from 'node:tls';
import mysql from 'mysql2';
import t, { type Test } from 'tap';
import { cellKind } from '#src/formats/cell-kind.js';
import type { DatabaseAddress } from '#src/wire/messages.js';
import type { ResultSink } from '#src/worker/answers.js';
import { Pipeline } from '#src/worker/commands.js';
import { Connection } from '#src/worker/connection.js';
import type { ConnectOptions } from '#src/worker/driver.js';
import { connectRefusal, type DriverError } from '#src/worker/failures.js';
import type { OkPacket } from '#src/worker/packets.js';
import {
  columnPayloads,
  continuedLength,
  eofPayload,
  errorPayload,
  framed,
  okPayload,
} from '../support/answer-packets.ts';
import { type DatabaseServer, sharedServers } from '../support/servers.ts';
import { until } from '../support/until.ts';

// Both servers share the machine with other processes.
t.setTimeout(540_000);

const MiB = 1024 * 1024;
const options = {
  user: 'root',
  password: '',
  timeoutMs: 10_000,
  rowBytesMax: 64 * MiB,
} satisfies Partial<ConnectOptions>;

const packageFile = new URL('../../../package.json', import.meta.url);

t.test('the installed driver is the version whose internals are known', (t) => {
  const { dependencies } = JSON.parse(readFileSync(packageFile, 'utf8')) as { dependencies: Record<string, string> };
  const pinned = dependencies['mysql2'] ?? '';
  t.match(pinned, /^\d+\.\d+\.\d+$/, 'no range');
  const installed = createRequire(import.meta.url)('mysql2/package.json') as { version: string };
  t.equal(installed.version, pinned);
  t.end();
});

/** The internals of the driver, typed loosely, because the test looks for changes. */
interface Inside extends EventEmitter {
  readonly stream: Socket;
  packetParser: { execute(chunk: Buffer): void };
  readonly threadId: unknown;
  readonly _mariadbExtendedMetadata: unknown;
  changeUser(options: object, done: (error: Error | null) => void): void;
  end(): void;
}

/** Records a result. */
class Result implements ResultSink {
  readonly reported: string[] = [];
  readonly end: Promise<OkPacket>;
  #ended: (packet: OkPacket) => void = () => {};
  #failed: (error: DriverError) => void = () => {};

  constructor() {
    this.end = new Promise((resolve, reject) => {
      this.#ended = resolve;
      this.#failed = reject;
    });
    // Not every test awaits the end.
    this.end.catch(() => {});
  }

  columns(definitions: Parameters<ResultSink['columns']>[0]): void {
    this.reported.push(`columns ${definitions.map(({ name }) => name).join()}`);
  }

  row(bytes: Buffer, start: number, end: number): void {
    this.reported.push(`row ${bytes.toString('utf8', start, end)}`);
  }

  rowTooLarge(): void {
    this.reported.push('row too large');
  }

  ended(packet: OkPacket): void {
    this.reported.push('ended');
    this.#ended(packet);
  }

  failed(error: DriverError): void {
    this.reported.push(`failed ${error.errno}`);
    this.#failed(error);
  }
}

for (const server of await sharedServers()) {
  const { kind } = server;
  const tcp = { host: '127.0.0.1', port: server.port };
  const hasTls = kind === 'mysql' || (await server.sql('SELECT @@have_ssl')) === 'YES';
  const ways: [string, DatabaseAddress][] = [[`${kind}, by its socket`, { socketPath: server.socketPath }]];
  if (hasTls) ways.push([`${kind}, by TLS`, { ...tcp, tls: { mode: 'required', ca: null } }]);

  for (const isTls of hasTls ? [false, true] : [false]) {
    t.test(`the driver has the internals that are used here (${kind}${isTls ? ' with TLS' : ''})`, async (t) => {
      const sockets: Socket[] = [];
      const stream = (): Socket => {
        const socket = connect(server.socketPath);
        sockets.push(socket);
        return socket;
      };
      const connection = mysql.createConnection({
        ...(isTls ? { ...tcp, ssl: { rejectUnauthorized: false } } : { stream }),
        user: 'root',
        flags: ['-CLIENT_QUERY_ATTRIBUTES'],
      });
      t.teardown(() => connection.destroy());
      const inside = connection as unknown as Inside;
      const streamOfLogin = inside.stream;
      const driverParser = inside.packetParser;
      const [handshake] = (await once(inside, 'connect')) as [{ serverVersion: string }];
      t.equal(handshake.serverVersion.includes('MariaDB'), kind === 'mariadb');
      t.equal(inside.stream instanceof TLSSocket, isTls);
      if (isTls) {
        t.not(inside.stream, streamOfLogin, 'the TLS socket replaces the plain one');
      } else {
        t.strictSame(sockets, [inside.stream], 'the driver uses the stream of the option, and creates one only');
      }
      t.equal(inside.packetParser, driverParser, 'the parser is created once');
      t.equal(inside._mariadbExtendedMetadata, kind === 'mariadb');
      t.equal(`${inside.threadId}`, await connectionId(inside));

      // From here on the replacement parser receives every chunk: the driver looks it up each time.
      t.match(await answerOf(inside, "SELECT 'abc'"), [
        Buffer.of(1),
        {},
        { 0: 0xfe, length: 5 },
        Buffer.from('\u0003abc'),
        { 0: 0xfe, length: 5 },
      ]);
      const others: Buffer[] = [];
      inside.packetParser = { execute: (chunk) => others.push(chunk) };
      inside.stream.write(command("SELECT 'def'"));
      await until(async () => Buffer.concat(others).includes('\u0003def'));

      inside.packetParser = driverParser;
      inside.stream.pause();
      inside.stream.resume();
      const failure = await new Promise((resolve) => inside.changeUser({ charset: 'UTF8MB4_GENERAL_CI' }, resolve));
      t.notOk(failure, "a new login uses the driver's own parser");
      t.equal(`${inside.threadId}`, await connectionId(inside));
      inside.packetParser = driverParser;
      const closed = once(inside.stream, 'close');
      inside.end();
      await closed;
    });
  }

  for (const [way, address] of ways) {
    t.test(`a statement's columns, rows and end are reported in order (${way})`, async (t) => {
      const connection = await open(t, address);
      t.equal(connection.isMariadb, kind === 'mariadb');
      t.equal(connection.isIdle, true);
      const result = new Result();
      connection.execute("SELECT 1 AS a, 'é' AS b UNION ALL SELECT 2, NULL", result);
      t.equal(connection.isIdle, false);
      t.strictSame(await result.end, {
        outcome: { affectedRows: '0', lastInsertId: null, warnings: 0 },
        moreResults: false,
        leftUtf8: null,
        sessionChanged: false,
        inTransaction: false,
        changes: null,
      });
      t.equal(connection.isIdle, true);
      t.strictSame(result.reported, ['columns a,b', 'row \u00011\u0002é', `row \u00012\ufffd`, 'ended']);
      t.strictSame(await connection.query("SELECT 'x', NULL, ''"), [['x', null, '']]);
      const done = new Result();
      connection.execute('DO 1', done);
      t.equal((await done.end).outcome.affectedRows, '0');
      t.strictSame(done.reported, ['ended']);
    });

    t.test(`an error is the server's own, and the connection continues after it (${way})`, async (t) => {
      const connection = await open(t, address);
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

    t.test(`an error during the rows comes after them (${way})`, async (t) => {
      const connection = await open(t, address);
      const result = new Result();
      connection.execute('SELECT 1 UNION ALL SELECT (SELECT 1 UNION ALL SELECT 2)', result);
      t.match(await result.end.catch((error: unknown) => error), { errno: 1242, sqlState: '21000' });
      t.ok(result.reported.length <= 3);
      t.equal(result.reported.at(-1), 'failed 1242');
      t.strictSame(await connection.query('SELECT 5'), [['5']]);
    });

    t.test(`commands that are sent before the last is answered are answered in order (${way})`, async (t) => {
      const connection = await open(t, address);
      const statements = [
        'SELECT 1',
        'SELECT nothing',
        "SELECT 'a' UNION ALL SELECT 'b'",
        'DO SLEEP(0.05)',
        'SELECT 2',
      ];
      const results = statements.map((sql) => {
        const result = new Result();
        connection.execute(sql, result);
        return result;
      });
      const errors = connection.pipeline(new Pipeline([{ type: 'query', sql: 'SET @x = 1' }]));
      t.strictSame(await connection.query('SELECT @x'), [['1']]);
      t.strictSame(await errors, [null]);
      t.strictSame(
        results.map(({ reported }) => reported),
        [
          ['columns 1', 'row \u00011', 'ended'],
          ['failed 1054'],
          ['columns a', 'row \u0001a', 'row \u0001b', 'ended'],
          ['ended'],
          ['columns 2', 'row \u00012', 'ended'],
        ],
      );
      t.equal(connection.isIdle, true);
    });

    t.test(`a connection that the server closes reports its loss once and fails its commands (${way})`, async (t) => {
      const connection = await open(t, address);
      let lost = 0;
      connection.on('lost', () => lost++);
      const reason = once(connection, 'lost');
      const result = new Result();
      connection.execute('SELECT SLEEP(100)', result);
      const waiting = t.rejects(connection.pipeline(new Pipeline([{ type: 'reset connection' }])));
      await runs(server, connection.id);
      await server.sql(`KILL CONNECTION ${connection.id}`);
      t.type((await reason)[0], 'string');
      await t.rejects(result.end);
      await waiting;
      await new Promise(setImmediate);
      t.equal(result.reported.length, 1);
      t.equal(lost, 1);
    });

    t.test(`an idle connection that the server closes is lost too (${way})`, async (t) => {
      const connection = await open(t, address);
      const lost = once(connection, 'lost');
      await server.sql(`KILL CONNECTION ${connection.id}`);
      await lost;
      await t.rejects(connection.query('SELECT 1'), /closed/);
    });

    t.test(`close and destroy do not report the connection as lost (${way})`, async (t) => {
      for (const method of ['close', 'destroy'] as const) {
        const connection = await open(t, address);
        const { id } = connection;
        connection.on('lost', () => t.fail('closed by the client, not lost'));
        connection[method]();
        await until(async () => (await server.sql(`${processes} WHERE ID = ${id}`)) === '0');
      }
      t.pass();
    });

    t.test(`pending commands fail when the connection is destroyed (${way})`, async (t) => {
      const connection = await open(t, address);
      connection.on('lost', () => t.fail('closed by the client, not lost'));
      const statement = connection.query('SELECT SLEEP(100)').catch(() => 'failed');
      const commands = connection.pipeline(new Pipeline([{ type: 'reset connection' }])).catch(() => 'failed');
      await runs(server, connection.id);
      connection.destroy();
      const settled = Promise.all([statement, commands]);
      t.strictSame(await Promise.race([settled, delay(20_000, 'still awaited', { ref: false })]), ['failed', 'failed']);
    });

    t.test(`commands in one write are answered one by one, even if others fail (${way})`, async (t) => {
      const connection = await open(t, address);
      const commands = new Pipeline([
        { type: 'query', sql: 'SET @x = 7' },
        { type: 'query', sql: 'SELECT 1 AS a, 2 AS b UNION ALL SELECT 3, 4' },
        { type: 'query', sql: 'SELECT nothing' },
        { type: 'query', sql: 'SELECT 1 LIMIT 0' },
        { type: 'init db', database: uniqueName() },
        { type: 'init db', database: 'mysql' },
      ]);
      for (let time = 0; time < 2; time++) {
        const errors = await connection.pipeline(commands);
        t.strictSame(
          errors.map((error) => error?.errno ?? null),
          [null, null, 1054, null, 1049, null],
        );
      }
      t.strictSame(await connection.query('SELECT @x, DATABASE()'), [['7', 'mysql']]);
      t.strictSame(await connection.pipeline(new Pipeline([{ type: 'reset connection' }])), [null]);
      t.strictSame(await connection.query('SELECT @x'), [[null]]);
    });

    t.test(`commands after a statement run even if it fails (${way})`, async (t) => {
      const connection = await open(t, address);
      for (const [sql, reported] of [
        ["SELECT 'a'", ['columns a', 'row \u0001a', 'ended']],
        ['DO 1', ['ended']],
        ['SELECT nothing', ['failed 1054']],
        ["SELECT 'ß' UNION ALL SELECT (SELECT 1 UNION ALL SELECT 2)", ['failed 1242']],
      ] as const) {
        await connection.query('SET @x = 0, @y = 0');
        const result = new Result();
        const errors = await connection.executeAndThen(
          sql,
          result,
          new Pipeline([
            { type: 'query', sql: 'SET @x = @x + 1' },
            { type: 'query', sql: 'SELECT nothing' },
            { type: 'query', sql: 'SET @y = 1' },
          ]),
        );
        t.strictSame(result.reported.slice(-reported.length), reported, sql);
        t.strictSame(
          errors.map((error) => error?.errno ?? null),
          [null, 1054, null],
        );
        t.strictSame(await connection.query('SELECT @x, @y'), [['1', '1']]);
      }
    });

    t.test(`the connection can be used after a new login (${way})`, async (t) => {
      const connection = await open(t, address);
      const { id } = connection;
      for (let time = 0; time < 2; time++) {
        await connection.query('USE mysql');
        await connection.query('SET @x = 1');
        await connection.changeUser();
        t.strictSame(await connection.query('SELECT DATABASE(), @x, CONNECTION_ID()'), [[null, null, `${id}`]]);
        t.strictSame(await connection.query('SELECT @@character_set_results'), [['utf8mb4']]);
      }
    });

    t.test(`a statement of any length arrives complete, and so does the next one (${way})`, async (t) => {
      const connection = await open(t, address);
      const [head, tail] = ["SELECT SHA2('", "', 256)"];
      // A payload has one byte before the statement. A payload that fills its packets is followed by an empty one.
      for (const payload of [-1, 0, 1, continuedLength, continuedLength + 1].map((more) => continuedLength + more)) {
        const text = Buffer.alloc(payload - 1 - head.length - tail.length, `${uniqueName()} abc`).toString();
        const result = new Result();
        const sql = `${head}${text}${tail}`;
        const errors = await connection.executeAndThen(sql, result, new Pipeline([{ type: 'query', sql: 'DO 1' }]));
        t.strictSame(errors, [null]);
        const hash = createHash('sha256').update(text).digest('hex');
        t.strictSame(result.reported.slice(1), [`row \u0040${hash}`, 'ended'], `${payload} bytes`);
      }
    });

    t.test(`a row that is too large to keep is dropped, and the statement continues (${way})`, async (t) => {
      const connection = await open(t, address, 'root', 20 * MiB);
      for (const size of [21 * MiB, continuedLength + 20 * MiB, 2 * continuedLength - 9]) {
        const result = new Result();
        connection.execute(`SELECT 'a' UNION ALL SELECT REPEAT('b', ${size}) UNION ALL SELECT 'c'`, result);
        // The timer must not keep the process alive.
        await Promise.race([result.end, delay(20_000, undefined, { ref: false })]);
        t.strictSame(
          result.reported,
          ['columns a', 'row \u0001a', 'row too large', 'row \u0001c', 'ended'],
          `${size} bytes`,
        );
      }
    });
  }

  for (const [way, address] of [...ways, [`${kind}, by TCP`, { ...tcp, tls: null }]] as const) {
    t.test(`a paused connection reads nothing more, and everything when it resumes (${way})`, async (t) => {
      const connection = await open(t, address);
      const total = 200_000;
      let rows = 0;
      let wrong = 0;
      const result = new Result();
      // Some MB of numbered rows.
      const sql = `WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < ${total})
        SELECT i, REPEAT('x', 200) FROM n`;
      const setting = kind === 'mysql' ? 'cte_max_recursion_depth' : 'max_recursive_iterations';
      await connection.query(`SET ${setting} = ${total}, net_write_timeout = 600`);
      const pauses = [10, total / 2];
      connection.execute(sql, {
        columns: () => {},
        row: (bytes, start, end) => {
          rows++;
          const digits = `${rows}`;
          const length = 1 + digits.length + 1 + 200;
          if (end - start !== length || bytes.toString('latin1', start + 1, start + 1 + digits.length) !== digits)
            wrong++;
          if (pauses.includes(rows)) connection.pause();
        },
        rowTooLarge: () => t.fail(),
        ended: (packet) => result.ended(packet),
        failed: (error) => result.failed(error),
      });
      for (const pause of pauses) {
        // When the buffers of both sockets are full, the server waits to write.
        await until(async () => {
          const state = await server.sql(
            `SELECT STATE FROM information_schema.PROCESSLIST WHERE ID = ${connection.id}`,
          );
          return rows >= pause && /writing to net|sending/i.test(state);
        });
        await server.sql('DO SLEEP(0.2)');
        t.equal(rows, pause, 'no row comes while it is paused, not even one that was already received');
        connection.resume();
      }
      await result.end;
      t.equal(rows, total);
      t.equal(wrong, 0);
      t.strictSame(await connection.query('SELECT 5'), [['5']]);
    });

    t.test(`a login is refused with the server's reason, and nothing is left behind (${way})`, async (t) => {
      const wrong = { ...options, address, user: uniqueName(), password: 'wrong' };
      const refused = await Connection.open(wrong).catch((error) => error);
      t.match(connectRefusal(refused as DriverError), { kind: 'denied', failure: { sqlstate: '28000' } });
      const connection = await Connection.open({ ...options, address });
      t.strictSame(await connection.query('SELECT 1'), [['1']]);
      connection.close();
    });
  }

  t.test(`a new login that is refused is an error (${kind})`, async (t) => {
    const user = uniqueName().slice(0, 32);
    await server.sql(`CREATE USER ${user}@'%', ${user}@localhost`);
    const connection = await open(t, { socketPath: server.socketPath }, user);
    t.match(await connection.query('SELECT CURRENT_USER()'), [[new RegExp(user)]]);
    await server.sql(`DROP USER ${user}@'%', ${user}@localhost`);
    t.match(await connection.changeUser().catch((error: unknown) => error), { errno: 1045 });
  });

  if (kind === 'mysql') {
    t.test(
      'a message that the server sends before it closes an idle connection is the reason of the loss',
      async (t) => {
        const connection = await open(t, { socketPath: server.socketPath });
        const lost = once(connection, 'lost');
        await connection.query('SET wait_timeout = 1');
        t.match((await lost)[0], /inactivity/);
      },
    );
  }

  if (hasTls) {
    t.test(`an untrusted certificate is refused if it must be verified (${kind})`, async (t) => {
      const address = { ...tcp, tls: { mode: 'verify-ca' as const, ca: null } };
      const refused = await Connection.open({ ...options, address }).catch((error) => error);
      t.match(connectRefusal(refused as DriverError), { kind: 'unavailable', failure: { message: /certificate/ } });
    });
  }
}

t.test('a server that is absent, hangs up or is silent is unavailable', async (t) => {
  const impatient = { ...options, timeoutMs: 300 };
  const socketPath = join(tmpdir(), uniqueName());
  const absent = await Connection.open({ ...impatient, address: { socketPath } }).catch((error) => error);
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
    for (const tls of [null, { mode: 'required', ca: null }] as const) {
      const address = { host: '127.0.0.1', port, tls };
      const error = await Connection.open({ ...impatient, address }).catch((error) => error);
      t.match(connectRefusal(error as DriverError), { kind: 'unavailable', failure: { code: 2002 } }, behaviour);
    }
  }
});

t.test(
  'a server that requests a file despite the missing capability gets none, and the connection is closed',
  async (t) => {
    const received: unknown[] = [];
    let asked = false;
    const connection = await openStub(t, (stream) => {
      asked = true;
      stream.on('data', (bytes) => received.push(bytes));
      stream.write(framed([Buffer.from('\xfb/etc/passwd', 'latin1')]));
    });
    const lost = once(connection, 'lost');
    await t.rejects(connection.query('SELECT 1'));
    await lost;
    t.ok(asked);
    t.strictSame(received, []);
  },
);

t.test('a malformed answer closes the connection and fails its commands', async (t) => {
  for (const [answer, reported] of [
    // A column that is cut off, and a cell that reaches past its row.
    [[Buffer.of(1), Buffer.from('\u0003def\u0005sch'), eofPayload()], []],
    [[...columnPayloads([cellKind.text]), Buffer.from('\u0009abc')], ['columns c0']],
  ] as const) {
    const connection = await openStub(t, (stream) => stream.write(framed(answer)));
    let lost = 0;
    connection.on('lost', () => lost++);
    const result = new Result();
    result.row = () => {
      throw new RangeError('a cell reaches past the end of its row packet');
    };
    connection.execute('SELECT 1', result);
    const next = t.rejects(connection.query('SELECT 1'));
    await t.rejects(result.end, RangeError);
    await next;
    t.strictSame(result.reported, [...reported, 'failed undefined']);
    t.equal(lost, 1);
  }
});

t.test('an unexpected packet closes the connection', async (t) => {
  for (const [said, reason] of [
    [errorPayload(1053, '08S01', 'Server shutdown in progress'), /^Server shutdown in progress$/],
    [okPayload(), /nobody/],
  ] as const) {
    const connection = await openStub(t, (stream) => stream.write(framed([okPayload(), said])));
    const lost = once(connection, 'lost');
    await connection.pipeline(new Pipeline([{ type: 'query', sql: 'DO 1' }]));
    t.match((await lost)[0], reason);
  }
});

const processes = 'SELECT COUNT(*) FROM information_schema.PROCESSLIST';

async function open(t: Test, address: DatabaseAddress, user = 'root', rowBytesMax = options.rowBytesMax) {
  const connection = await Connection.open({ ...options, address, user, rowBytesMax });
  t.teardown(() => connection.destroy());
  return connection;
}

/** Connects to a fake server that accepts every login and answers the first statement as the test says. */
async function openStub(t: Test, answer: (stream: Socket) => void): Promise<Connection> {
  const stub = mysql.createServer((peer) => {
    const { stream, serverHandshake } = peer as unknown as {
      stream: Socket;
      serverHandshake(this: object, options: object): void;
    };
    const expectCommand = (): void => (peer as unknown as { _resetSequenceId(): void })._resetSequenceId();
    serverHandshake.call(peer, {
      protocolVersion: 10,
      serverVersion: '8.0.0',
      connectionId: 1,
      statusFlags: 2,
      characterSet: 45,
      capabilityFlags: 0x00ff_ffff,
      authCallback: (_: unknown, done: (problem: null) => void) => {
        done(null);
        expectCommand();
      },
    });
    const events = peer as unknown as EventEmitter;
    events.on('error', () => {});
    events.on('query', expectCommand);
    events.once('query', () => answer(stream));
  });
  const listener = (stub as unknown as { _server: Server })._server;
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  t.teardown(() => listener.close());
  const { port } = listener.address() as { port: number };
  return await open(t, { host: '127.0.0.1', port, tls: null });
}

/** The packet of a statement. */
function command(sql: string): Buffer {
  const packet = framed([Buffer.from(`\u0003${sql}`)]);
  packet[3] = 0;
  return packet;
}

/** The payloads of the answer to a statement with one row, received in place of the driver's parser. */
async function answerOf(inside: Inside, sql: string): Promise<Buffer[]> {
  const chunks: Buffer[] = [];
  inside.packetParser = { execute: (chunk) => chunks.push(Buffer.from(chunk)) };
  inside.stream.write(command(sql));
  let payloads: Buffer[] = [];
  await until(async () => {
    const bytes = Buffer.concat(chunks);
    payloads = [];
    for (let at = 0; at + 4 <= bytes.length; ) {
      const end = at + 4 + bytes.readUIntLE(at, 3);
      payloads.push(bytes.subarray(at + 4, end));
      at = end;
    }
    return payloads.length === 5;
  });
  return payloads;
}

async function connectionId(inside: Inside): Promise<string> {
  const payloads = await answerOf(inside, 'SELECT CAST(CONNECTION_ID() AS CHAR)');
  return payloads[3]?.subarray(1).toString() ?? '';
}

/** Waits until the server runs a statement of that connection. */
async function runs(server: DatabaseServer, id: number): Promise<void> {
  await until(async () => (await server.sql(`${processes} WHERE ID = ${id} AND COMMAND = 'Query'`)) === '1');
}

function uniqueName(): string {
  return `connection_${randomUUID().replaceAll('-', '')}`;
}
