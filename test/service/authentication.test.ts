import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { exchange, requestText } from '../support/raw-http.ts';
import { type DatabaseServer, isInstalled, sharedServers, startServer } from '../support/servers.ts';
import { get, post, query, type Reply, type SluiceProcess, startSluice } from '../support/sluice.ts';
import { until } from '../support/until.ts';

function unique(): string {
  return `auth_${process.pid}_${Math.random().toString(36).slice(2, 8)}`;
}

async function start(t: Test, server: DatabaseServer, args: readonly string[] = [], url = server.url) {
  const common = ['--drain_secs', '0', '--log_level', 'trace', '--worker_threads', '1'];
  const sluice = await startSluice(['--mysql_url', url, ...common, ...args]);
  t.teardown(() => sluice.stop());
  return sluice;
}

function basic(pair: string | Uint8Array): string {
  return `Basic ${Buffer.from(pair).toString('base64')}`;
}

/** Posts a SELECT with the given Authorization header. */
function postAs(sluice: SluiceProcess, authorization: string | undefined): Promise<Reply> {
  return post(sluice.url, { sql: 'SELECT CURRENT_USER()' }, { headers: { authorization } });
}

const unauthorized = { status: 401, headers: { 'www-authenticate': 'Basic realm="sluice"' } };

for (const server of await sharedServers()) {
  const { kind } = server;

  t.test(`logins on ${kind}`, { timeout: 540_000 }, async (t) => {
    const user = unique();
    await server.sql(
      `CREATE USER ${user}@'%' IDENTIFIED BY 's3cret:with:colons'; CREATE USER ${user}_e@'%';` +
        `CREATE USER '${user}_ü€'@'%' IDENTIFIED BY 'пароль ü€😀';` +
        (kind === 'mariadb'
          ? `CREATE USER ${user}_n@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('native');`
          : `CREATE USER ${user}_n@'%' IDENTIFIED WITH caching_sha2_password BY 'native';`),
    );
    t.teardown(() => server.sql(`DROP USER ${user}, ${user}_e, ${user}_n, '${user}_ü€'`));
    const sluice = await start(t, server);
    const { socketPath } = server;
    const socketUrl = `mysql://root@localhost/?socket=${encodeURIComponent(socketPath)}`;
    const anonymousUser = ['--anonymous_user', `${user}_n`, '--anonymous_password', 'native'];
    const bySocket = await start(t, server, anonymousUser, socketUrl);

    t.test('correct credentials are accepted, wrong ones get 401, by TCP and by socket', async (t) => {
      for (const [transport, service] of [
        ['TCP', sluice],
        ['socket', bySocket],
      ] as const) {
        for (const [name, password] of [
          [user, 's3cret:with:colons'],
          [`${user}_e`, ''],
          [`${user}_n`, 'native'],
          [`${user}_ü€`, 'пароль ü€😀'],
        ] as const) {
          const { rows } = await query(service.url, 'SELECT CURRENT_USER()', { user: name, password });
          t.strictSame(rows, [[`${name}@%`]], `${name} by ${transport}`);
          for (const wrong of [`${password}x`, password.toUpperCase() === password ? 'X' : password.toUpperCase()]) {
            const reply = await post(service.url, { sql: 'SELECT 1' }, { user: name, password: wrong });
            t.match(reply, unauthorized, `${name} with ${wrong} by ${transport}`);
            t.match(reply.headers['content-type'], 'text/plain; charset=utf-8');
            t.notMatch(reply.text, /\n/);
          }
          if (password !== '') t.match(await postAs(service, basic(`${name}:`)), unauthorized);
        }
        t.match(await postAs(service, basic('nobody_at_all:x')), unauthorized);
        t.match(await postAs(service, basic('nobody_at_all:')), unauthorized);
        t.match(await postAs(service, basic(':')), unauthorized, 'no name');
        t.match(await postAs(service, basic(`${'n'.repeat(5_000)}:x`)), unauthorized, 'a name that is too long');
        t.match(await postAs(service, basic(`${user}:${'p'.repeat(5_000)}`)), unauthorized, 'a long password');
      }
    });

    t.test('wrong credentials are refused before the body has arrived', async (t) => {
      const head = requestText('POST /v1/query HTTP/1.1', {
        Authorization: basic(`${user}:wrong`),
        'Content-Type': 'application/json',
        'Content-Length': '1000000',
      });
      const { replies } = await exchange(sluice.url, head, { replies: 1 });
      t.match(replies, [{ status: 401 }]);
    });

    t.test('other forms of the Authorization header', async (t) => {
      const right = basic(`${user}:s3cret:with:colons`);
      const token = right.slice('Basic '.length);
      for (const form of [
        `basic ${token}`,
        `BASIC ${token}`,
        `Basic   ${token}`,
        `Basic ${token.replace(/=+$/, '')}`,
      ]) {
        t.equal((await postAs(sluice, form)).status, 200, form);
      }
      for (const form of [
        undefined,
        '',
        'Basic',
        'Basic ',
        token,
        `Bearer ${token}`,
        `Digest ${token}`,
        `Basic ${token} ${token}`,
        `Basic ${token}!`,
        'Basic %%%%',
        'Basic ====',
        basic('no colon'),
        basic(`${user}:s3cret:with:colons\0`),
        basic(`${user}\0:s3cret:with:colons`),
        basic(new Uint8Array([0xff, 0xfe, 0x3a, 0xff])),
        basic(` ${user}:s3cret:with:colons`),
      ]) {
        const reply = await postAs(sluice, form);
        t.match(reply, unauthorized, String(form));
        t.ok(reply.text.length > 0 && !reply.text.includes('\n'));
      }
      const pages = await get(sluice.url, '/v1/query/xyz', { headers: { authorization: undefined } });
      t.match(pages, unauthorized, 'other paths require it, too');
      t.equal((await get(sluice.url, '/health', { headers: { authorization: undefined } })).status, 200);
      t.equal((await get(sluice.url, '/ready', { headers: { authorization: undefined } })).status, 200);
    });

    t.test('the log contains no password', async (t) => {
      for (const service of [sluice, bySocket]) {
        await until(async () => service.log().includes('query_started'));
        t.notMatch(service.log() + service.output(), /s3cret|пароль|native|czNjcmV0/i);
      }
    });

    t.test('a request without the header runs as --anonymous_user', async (t) => {
      const anonymous = bySocket;
      const reply = await postAs(anonymous, undefined);
      t.match(reply, { status: 200, json: { data: [[`${user}_n@%`]] } });
      t.match((await get(anonymous.url, reply.json.stats_uri, { headers: { authorization: undefined } })).status, 200);
      t.match(
        await postAs(anonymous, basic(`${user}_e:`)),
        { json: { data: [[`${user}_e@%`]] } },
        'the header takes precedence',
      );
      t.match(await postAs(anonymous, basic(`${user}_e:x`)), unauthorized, 'a wrong header, too');
      t.match(await postAs(anonymous, 'nonsense'), unauthorized);
    });

    t.test('other users can neither see nor stop a query', async (t) => {
      const own = { user, password: 's3cret:with:colons' };
      const other = { user: `${user}_e`, password: '' };
      const body = { sql: 'SELECT SLEEP(1), 42', pagination: { wait_time_secs: 0 } };
      const { json: running } = await post(sluice.url, body, own);
      t.equal(running.state, 'Running');
      const paths = [running.next_uri, running.stats_uri, `/v1/query/${running.id}/kill`, running.final_uri];
      const unknown = await get(
        sluice.url,
        // The same time: an id from before the start of the server gets another message.
        running.stats_uri.replace(running.id, running.id.slice(0, 12) + '0'.repeat(32)),
        other,
      );
      for (const path of paths) {
        const reply = await get(sluice.url, path ?? '', other);
        t.equal(reply.status, 404, path ?? '');
        t.equal(
          reply.text.replace(running.id, 'ID'),
          unknown.text.replace(/\w{44}/, 'ID'),
          'the same as for an id that never existed',
        );
      }
      t.equal((await post(sluice.url, '', { ...other })).status, 400);
      let last = running;
      while (last.next_uri !== null) {
        last = (await get(sluice.url, last.next_uri, own)).json;
        await delay(50);
      }
      t.match(last, { state: 'Succeeded' });
      t.equal((await get(sluice.url, running.stats_uri, own)).status, 200);
      t.equal((await get(sluice.url, running.final_uri, own)).status, 200);
      t.match(await get(sluice.url, running.stats_uri, own), { status: 404, text: /finished by the client/ });
      const remembered = await get(sluice.url, running.stats_uri, other);
      t.equal(remembered.status, 404);
      t.notMatch(remembered.text, /finished/, 'the answer does not reveal that it existed');
    });
  });

  // Each of them waits for a second or two, so they run concurrently on one service.
  t.test(`a revoked login or privilege takes effect on ${kind}`, { timeout: 540_000 }, async (t) => {
    const sluice = await start(t, server, [
      ...['--auth_cache_secs', '1', '--kill_timeout_secs', '1', '--ping_secs', '1'],
    ]);
    t.jobs = 5;

    t.test(`cached logins expire on ${kind}`, { timeout: 540_000 }, async (t) => {
      const user = unique();
      await server.sql(`CREATE USER ${user}@'%' IDENTIFIED BY 'old'`);
      t.teardown(() => server.sql(`DROP USER IF EXISTS ${user}`));
      const status = async (password: string): Promise<number> =>
        (await post(sluice.url, { sql: 'SELECT 1' }, { user, password })).status;

      t.equal(await status('old'), 200);
      await server.sql(`ALTER USER ${user}@'%' IDENTIFIED BY 'new'`);
      t.equal(await status('new'), 200, 'a new password is accepted at once');
      await until(async () => (await status('old')) === 401);
      t.equal(await status('old'), 401);
      t.equal(await status('new'), 200);

      await server.sql(`ALTER USER ${user}@'%' ACCOUNT LOCK`);
      await until(async () => (await status('new')) === 401);
      await server.sql(`ALTER USER ${user}@'%' ACCOUNT UNLOCK`);
      t.equal(await status('new'), 200, 'a refusal is not cached');
      await server.sql(`DROP USER ${user}`);
      await until(async () => (await status('new')) === 401);
    });

    t.test(
      `A4: a global privilege that is revoked on ${kind} is gone on every connection`,
      { timeout: 540_000 },
      async (t) => {
        const user = unique();
        await server.sql(`CREATE USER ${user}@'%'; GRANT SELECT, PROCESS, CREATE USER ON *.* TO ${user}@'%'`);
        t.teardown(() => server.sql(`DROP USER IF EXISTS ${user}, ${user}_made`));
        const ask = async (sql: string): Promise<number | null> => {
          const { json } = await post(sluice.url, { sql, pagination: { wait_time_secs: 20 } }, { user });
          return json.error?.code ?? null;
        };
        const uses = [
          'SELECT COUNT(*) FROM mysql.db',
          'SHOW ENGINE INNODB STATUS',
          `CREATE USER IF NOT EXISTS ${user}_made@localhost`,
        ];
        // Several connections. All of them are reused from here on, so that none is closed as idle.
        await Promise.all(Array.from({ length: 4 }, () => ask('SELECT SLEEP(0.2)')));
        const keepBusy = (): Promise<unknown> =>
          Promise.all(Array.from({ length: 4 }, () => ask('SELECT SLEEP(0.02)')));
        for (const sql of uses) t.equal(await ask(sql), null, sql);
        await server.sql(`REVOKE SELECT, PROCESS, CREATE USER ON *.* FROM ${user}@'%'`);
        const refused = async (): Promise<boolean> => {
          await keepBusy();
          const codes = await Promise.all(uses.map(ask));
          return codes.every((code) => code !== null);
        };
        const revokedAt = performance.now();
        while (performance.now() < revokedAt + 1_000) await keepBusy();
        for (let round = 0; round < 5; round++) t.equal(await refused(), true, 'on every connection');
        await server.sql(`GRANT SELECT ON *.* TO ${user}@'%'`);
        await until(async () => (await ask(uses[0] as string)) === null);
      },
    );

    for (const [what, change] of [
      ['DROP USER', (user: string) => `DROP USER ${user}`],
      ['a new password', (user: string) => `ALTER USER ${user} IDENTIFIED BY 'new'`],
      ['ACCOUNT LOCK', (user: string) => `ALTER USER ${user} ACCOUNT LOCK`],
    ] as const) {
      t.test(`A4: ${what} on ${kind} ends sessions and running statements`, { timeout: 540_000 }, async (t) => {
        const user = unique();
        const login = { user, password: 'old' };
        await server.sql(`CREATE USER ${user}@'%' IDENTIFIED BY 'old'`);
        t.teardown(() => server.sql(`DROP USER IF EXISTS ${user}`));
        const kept = { session: { max_idle_time: 3_600 } };
        const noWait = { pagination: { wait_time_secs: 0 } };
        const idle = await query(sluice.url, 'SET @x = 1', { ...login, body: kept });
        const busy = await post(sluice.url, { sql: 'SELECT SLEEP(600)', ...kept, ...noWait }, login);
        const oneOff = await post(sluice.url, { sql: 'SELECT SLEEP(600)', ...noWait }, login);
        for (const { json } of [busy, oneOff]) t.equal(json.state, 'Running');
        const count = `SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = '${user}'`;
        await until(async () => Number(await server.sql(`${count} AND INFO LIKE '%SLEEP(600)%'`)) === 2);

        await server.sql(change(user));
        await until(async () => (await get(sluice.url, busy.json.stats_uri, login)).status === 401);
        await until(async () => (await server.sql(count)) === '0');
        t.notMatch(sluice.log(), /request_failed/);

        if (what === 'DROP USER') await server.sql(`CREATE USER ${user}@'%' IDENTIFIED BY 'old'`);
        if (what === 'ACCOUNT LOCK') await server.sql(`ALTER USER ${user} ACCOUNT UNLOCK`);
        const now = { user, password: what === 'a new password' ? 'new' : 'old' };
        for (const { json } of [busy, oneOff]) {
          const { error } = (await get(sluice.url, json.stats_uri, now)).json;
          t.match(error, { code: 90002, message: /no longer accepts its user's name and password/ });
        }
        const after = await post(sluice.url, { sql: 'SELECT @x', session: { id: idle.last.session_id } }, now);
        t.match(after.json.error, { code: 90001 }, 'the session has ended, too');
      });
    }
  });

  t.test(`limits of a user on ${kind}`, { timeout: 540_000 }, async (t) => {
    const sluice = await start(t, server, [
      ...['--auth_failures_max', '1', '--auth_cache_secs', '600', '--queue_wait_secs', '1'],
      ...['--queries_per_user_max', '2', '--unread_per_user_max', '3'],
    ]);

    t.test(`a user with few connections on ${kind}`, { timeout: 540_000 }, async (t) => {
      const user = unique();
      await server.sql(`CREATE USER ${user}@'%' IDENTIFIED BY 'pw' WITH MAX_USER_CONNECTIONS 1`);
      t.teardown(() => server.sql(`DROP USER ${user}`));
      const login = { user, password: 'pw' };
      const { rows, last } = await query(sluice.url, 'SELECT 1', {
        ...login,
        body: { session: { max_idle_time: 60 } },
      });
      t.strictSame(rows, [[1]]);
      const waiting = await query(sluice.url, 'SELECT 1', { ...login, body: { pagination: { wait_time_secs: 20 } } });
      t.match(
        waiting.last.error,
        { code: 1040, message: /--queue_wait_secs/ },
        'B4: one more statement waits in the queue',
      );
      const inSession = await query(sluice.url, 'SELECT 2', { ...login, body: { session: { id: last.session_id } } });
      t.strictSame(inSession.rows, [[2]]);
    });

    t.test(`on ${kind}, the concurrent statements of a user are limited`, async (t) => {
      const user = unique();
      await server.sql(`CREATE USER ${user}@'%'`);
      t.teardown(() => server.sql(`DROP USER ${user}`));
      const body = { sql: 'SELECT SLEEP(100)', pagination: { wait_time_secs: 0 } };
      const replies = await Promise.all(Array.from({ length: 6 }, () => post(sluice.url, body, { user })));
      t.strictSame(replies.map(({ status }) => status).sort(), [200, 200, 429, 429, 429, 429]);
      for (const reply of replies) {
        if (reply.status === 429) t.match(reply.text, /--queries_per_user_max/);
        else await get(sluice.url, reply.json.final_uri, { user });
      }
    });

    t.test(`on ${kind}, the unread results of a user are limited, and do not block other users`, async (t) => {
      const body = { sql: 'SELECT 1', pagination: { wait_time_secs: 0 } };
      const unread = { sql: 'SELECT 1 UNION ALL SELECT 2', pagination: { max_rows_per_page: 1 } };
      const ask = () => post(sluice.url, body);
      const first = await post(sluice.url, unread);
      for (let count = 1; count < 3; count++) await post(sluice.url, unread);
      const refused = await ask();
      t.equal(refused.status, 429);
      t.match(refused.text, /--unread_per_user_max.*final_uri/);
      t.match(refused.headers['retry-after'], /^\d+$/);
      await server.sql("CREATE USER other@'%'");
      t.teardown(() => server.sql('DROP USER other'));
      t.equal((await post(sluice.url, body, { user: 'other' })).status, 200);
      t.equal((await get(sluice.url, first.json.next_uri as string)).status, 200);
      t.equal((await ask()).status, 200, 'reading a result makes room');
    });

    t.test(`B5: on ${kind}, each account has one name`, { timeout: 540_000 }, async (t) => {
      const user = unique();
      const long = 'n'.repeat(128);
      await server.sql(`CREATE USER ${user}@'%'; ${kind === 'mariadb' ? `CREATE USER ${long}@'%'` : ''}`);
      t.teardown(() => server.sql(`DROP USER ${user}; ${kind === 'mariadb' ? `DROP USER ${long}` : ''}`));
      const ask = (name: string, password = ''): Promise<Reply> =>
        post(sluice.url, { sql: 'SELECT CURRENT_USER()' }, { user: name, password });

      t.match(await ask(`'${user}'`), { ...unauthorized, text: /in quotes/ });
      t.match(await ask(`''${user}''`), unauthorized);
      for (const longer of [`${long}x`, `${long}yz`, `${'😀'.repeat(129)}`]) t.match(await ask(longer), unauthorized);
      t.equal((await ask(user)).status, 200, 'quoted names do not count as wrong passwords of the user');
      if (kind === 'mariadb') t.match(await ask(long), { status: 200, json: { data: [[`${long}@%`]] } });
      t.match(await ask(`${user} `), unauthorized);
      t.match(await ask(user.toUpperCase()), unauthorized);
    });
  });

  t.test(`a database that is full or down, on ${kind}`, { skip: !isInstalled(kind), timeout: 540_000 }, async (t) => {
    const own = await startServer(kind, ['--max-connections=10', '--connect-timeout=600']);
    t.teardown(() => own.stop());
    await own.sql("CREATE USER busy@'%' IDENTIFIED BY 'pw'; CREATE USER late@'%'");
    const sluice = await start(t, own, [
      ...['--auth_cache_secs', '1', '--connect_timeout_secs', '2', '--connection_idle_secs', '1'],
    ]);
    const login = { user: 'busy', password: 'pw' };
    const ask = () => post(sluice.url, { sql: 'SELECT 1' }, login);
    t.equal((await ask()).status, 200);

    // Otherwise Sluice would close one of its idle connections to make room for a login.
    await until(async () => /^sluice_connections 0$/m.test((await get(sluice.url, '/metrics')).text));
    // Connections that never log in occupy all slots, including each slot that becomes free.
    const sockets = new Set<Socket>();
    let isFilling = true;
    const fill = (): void => {
      if (!isFilling) return;
      const socket = connect(own.port, '127.0.0.1').on('error', () => {});
      sockets.add(socket);
      socket.on('close', () => {
        sockets.delete(socket);
        setTimeout(fill, 10);
      });
    };
    for (let count = 0; count < 14; count++) fill();
    const isFull = (): Promise<boolean> =>
      own.sql('SELECT 1', { user: 'late' }).then(
        () => false,
        (error: Error) => /[Tt]oo many connections/.test(error.message),
      );
    await until(async () => {
      // Checked several times: a client that has just ended may still count.
      for (let times = 0; times < 5; times++) {
        if (!(await isFull())) return false;
        await delay(50);
      }
      return true;
    });
    const full = await post(sluice.url, { sql: 'SELECT 1' }, { user: 'late' });
    t.equal(full.status, 503, 'too many connections');
    t.match(full.text, /[Tt]oo many connections/);
    t.match(full.headers['retry-after'], /^\d+$/);
    isFilling = false;
    for (const socket of sockets) socket.destroy();
    await until(async () => (await ask()).status === 200);

    // A crash might lose the user that was just created: these servers flush their log once a second.
    await own.terminate();
    await until(async () => (await ask()).status === 503);
    const down = await ask();
    t.equal(down.status, 503);
    t.match(down.headers['retry-after'], /^\d+$/);
    t.match(down.text, /cannot be reached/);
    t.match(await postAs(sluice, undefined), unauthorized, 'a missing header still gets 401');
    t.equal((await get(sluice.url, '/ready')).status, 503);
    t.equal((await get(sluice.url, '/health')).status, 200);

    await own.restart();
    await until(async () => (await ask()).status === 200);
    await until(async () => (await get(sluice.url, '/ready')).status === 200);
    t.match(await post(sluice.url, { sql: 'SELECT 1' }, { user: 'busy', password: 'wrong' }), unauthorized);

    await t.test('B5: an anonymous account does not make every name a valid user', async (t) => {
      // MariaDB prefers the account with the more specific host, even an anonymous one.
      await own.sql("CREATE USER ''@'%'; CREATE USER anna@'%'");
      const askAs = (user: string): Promise<Reply> => post(sluice.url, { sql: 'SELECT 1' }, { user });
      for (const name of ['nobody', 'somebody', 'n'.repeat(100)]) {
        t.match(await askAs(name), unauthorized, name);
      }
      t.match((await askAs('nobody')).text, /anonymous/);
      t.equal((await askAs('anna')).status, 200);
      t.equal((await get(sluice.url, '/ready')).status, 200);
    });
    t.notMatch(sluice.log(), /request_failed/, 'no request failed because of a defect');
  });
}
