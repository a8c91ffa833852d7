// The state in which a statement finds its connection: that after a login, and in a kept session that which the
// statements before it have set.

import t, { type Test } from 'tap';
import { type DatabaseKind, isInstalled, type PrivateServer, startServer } from '../support/servers.ts';
import { type Credentials, post, query, type SluiceProcess, startSluice } from '../support/sluice.ts';

t.setTimeout(540_000);

const plain = { user: 'plain', password: 'pw' };
const exempt = { user: 'exempt', password: 'pw' };

const initConnect =
  "SET @x = 5; SET time_zone = '+03:00', sql_mode = 'ANSI_QUOTES'; SET NAMES utf8mb4 COLLATE utf8mb4_bin";
const look = 'SELECT @x, @@time_zone, @@sql_mode, @@collation_connection';
// MariaDB shows a trace with an empty text to a user who lacks privileges on its tables.
const traces = 'SELECT COUNT(*) FROM information_schema.OPTIMIZER_TRACE';
const afterInit = [5, '+03:00', 'ANSI_QUOTES', 'utf8mb4_bin'];

for (const kind of ['mariadb', 'mysql'] satisfies DatabaseKind[]) {
  t.test(kind, { skip: !isInstalled(kind) }, async (t) => {
    // init_connect is a global variable.
    const server = await startServer(kind);
    t.teardown(() => server.stop());
    await server.sql(`
      CREATE DATABASE home; CREATE TABLE home.t (i INT);
      CREATE USER plain@'%' IDENTIFIED BY 'pw'; GRANT SELECT, INSERT, CREATE, EXECUTE, UPDATE ON home.* TO plain@'%';
      CREATE USER exempt@'%' IDENTIFIED BY 'pw';
      GRANT ${kind === 'mariadb' ? 'CONNECTION ADMIN' : 'CONNECTION_ADMIN'} ON *.* TO exempt@'%'; GRANT SELECT ON home.* TO exempt@'%';
      CREATE ROLE one; CREATE ROLE other;
      DELIMITER //
      CREATE PROCEDURE home.trace() BEGIN
      SET optimizer_trace = 'enabled=on'; SELECT COUNT(*) AS secret FROM t;
      END//`);

    const start = async (t: Test, ...args: string[]): Promise<SluiceProcess> => {
      const connections = args.includes('--connections_max') ? [] : ['--connections_max', '8'];
      const common = [...connections, '--worker_threads', '1', '--drain_secs', '0'];
      const sluice = await startSluice(['--mysql_url', `${server.url}home`, ...common, ...args]);
      t.teardown(() => sluice.stop());
      return sluice;
    };

    t.test('with an init_connect', async (t) => {
      await setInitConnect(t, server, initConnect);
      const { url } = await start(t);

      t.test('A3: init_connect applies to every one-off statement', async (t) => {
        for (const sql of [
          'SELECT 1',
          "SET @x = 6, time_zone = '+00:00', sql_mode = ''",
          'USE home',
          'SELECT @x := 7',
        ]) {
          t.strictSame((await query(url, look, plain)).rows, [afterInit]);
          t.equal((await query(url, sql, plain)).last.error, null);
          t.strictSame((await query(url, look, plain)).rows, [afterInit], `after ${sql}`);
          const bound = await query(url, `${look}, ?`, { ...plain, body: { params: ['ä'] } });
          t.strictSame(bound.rows, [[...afterInit, 'ä']], `prepared, after ${sql}`);
        }
        const many = await Promise.all(Array.from({ length: 30 }, () => query(url, look, plain)));
        t.strictSame(new Set(many.map(({ rows }) => JSON.stringify(rows))), new Set([JSON.stringify([afterInit])]));
        t.strictSame((await query(url, 'SELECT FOUND_ROWS()', plain)).rows, [[0]]);
      });

      t.test(
        'A3: init_connect applies to the first statement of a kept session, whose own settings stay',
        async (t) => {
          const body = { session: { max_idle_time: 60 } };
          const opened = await query(url, look, { ...plain, body });
          t.strictSame(opened.rows, [afterInit]);
          const session = { ...plain, body: { session: { id: opened.last.session_id } } };
          await query(url, "SET @x = 8, time_zone = '+01:00'", session);
          t.strictSame((await query(url, look, session)).rows, [[8, '+01:00', ...afterInit.slice(2)]]);
          t.strictSame((await query(url, look, plain)).rows, [afterInit], 'outside the session');
        },
      );

      t.test('A3: init_connect applies to the statements of Databend clients', async (t) => {
        const expected = [['5', '+03:00', 'ANSI_QUOTES', 'utf8mb4_bin']];
        for (const sql of [look, 'USE home', look, 'SET @x = 9', look]) {
          const { data, error } = await asDatabend(url, sql, plain);
          t.equal(error, null, sql);
          if (sql === look) t.strictSame(data, expected);
        }
        // A pinned session keeps its connection: its settings stay until it ends.
        const begun = await asDatabend(url, 'BEGIN', plain);
        const set = await asDatabend(url, 'SET @x = 10', plain, begun.session);
        t.strictSame((await asDatabend(url, 'SELECT @x', plain, set.session)).data, [['10']]);
        t.strictSame((await asDatabend(url, look, plain)).data, expected);
      });
    });

    t.test('with one connection', async (t) => {
      // A statement waits until the one before it has released the connection.
      const { url } = await start(t, '--connections_max', '1');

      t.test(
        'A3: connections are reused for users who are exempt from init_connect, and for all when it is empty',
        async (t) => {
          const unset = await setInitConnect(t, server, initConnect);
          const connections = async (who: Credentials): Promise<number> => {
            const ids = new Set<unknown>();
            for (let round = 0; round < 4; round++)
              ids.add((await query(url, 'SELECT CONNECTION_ID()', who)).rows[0]?.[0]);
            return ids.size;
          };
          for (const who of [exempt, { user: 'root' }]) {
            const found = (await query(url, look, who)).rows;
            t.notSame(found, [afterInit], 'init_connect is not run for this user');
            t.strictSame((await query(url, look, who)).rows, found);
            t.equal(await connections(who), 1, `connections of ${who.user} are reused`);
          }
          t.equal(await connections(plain), 4, 'each statement has its own connection');
          await unset();
          await query(url, 'SELECT 1', plain);
          t.equal(await connections(plain), 1);
        },
      );

      t.test('A5: the next statement does not see the optimizer trace of a one-off statement', async (t) => {
        for (const sql of ['CALL trace()', "SET optimizer_trace = 'enabled=on'", 'CALL trace()']) {
          t.equal((await query(url, sql, { user: 'root' })).last.error, null);
          t.strictSame((await query(url, traces, { user: 'root' })).rows, [[0]], sql);
        }
      });
    });

    t.test('A3: the roles of every statement are those of a login', async (t) => {
      const { url } = await start(t);
      // Each user has its own connections, which are opened after its default roles are set.
      const roles = async (user: string): Promise<unknown[]> => {
        const found: unknown[] = [];
        for (const sql of ['SELECT 1', 'SET ROLE NONE', 'SET ROLE other']) {
          found.push((await query(url, 'SELECT CURRENT_ROLE()', { user })).rows[0]?.[0]);
          t.equal((await query(url, sql, { user })).last.error, null);
        }
        return found;
      };
      const forUser = kind === 'mariadb' ? 'FOR' : 'TO';
      for (const user of ['with_one', 'with_other', 'with_none', 'with_all']) {
        await server.sql(`CREATE USER ${user}@'%'; GRANT SELECT ON home.* TO ${user}@'%'; GRANT one TO ${user}@'%'; GRANT other TO ${user}@'%';
          SET DEFAULT ROLE ${user.replace(/^with_(all)?/, '') || 'none'} ${forUser} ${user}@'%'`);
      }
      const name = (role: string) => (kind === 'mariadb' ? role : `\`${role}\`@\`%\``);
      t.strictSame(await roles('with_one'), [name('one'), name('one'), name('one')]);
      t.strictSame(await roles('with_other'), [name('other'), name('other'), name('other')]);
      t.strictSame(await roles('with_none'), kind === 'mariadb' ? [null, null, null] : ['NONE', 'NONE', 'NONE']);
      if (kind === 'mariadb') return;
      await server.sql('SET GLOBAL activate_all_roles_on_login = ON');
      t.teardown(() => server.sql('SET GLOBAL activate_all_roles_on_login = OFF'));
      const all = `${name('one')},${name('other')}`;
      t.strictSame(await roles('with_all'), [all, all, all]);
    });

    t.test('without an init_connect at first', async (t) => {
      const { url } = await start(t, '--connections_max', '40', '--connections_per_user_max', '30');

      t.test('A3: an init_connect that fails is reported to the user whose login it breaks', async (t) => {
        await setInitConnect(t, server, 'nonsense');
        const reply = await post(url, { sql: 'SELECT 1' }, plain);
        // The server may close the connection without an error packet.
        if (reply.status === 503) t.match(reply.text, /connection/i);
        else t.match(reply.json.error, { code: 1184, message: /init_connect/, outcome: 'not_started' });
        t.strictSame((await query(url, 'SELECT 1', exempt)).rows, [[1]]);
      });

      t.test('A5: the next statement of a kept session sees the optimizer trace of a statement', async (t) => {
        const run = await openSession(url);
        await run('CALL trace()');
        t.strictSame(await run(traces), [[1]]);
      });

      t.test('A6: in a kept session, a collation of utf8mb4 stays', async (t) => {
        for (const sql of [
          'SET NAMES utf8mb4 COLLATE utf8mb4_bin',
          'SET collation_connection = utf8mb4_bin',
          'SET collation_connection = utf8mb4_bin, character_set_results = latin1',
        ]) {
          const run = await openSession(url);
          t.strictSame(await run("SELECT 'a' = 'A'"), [[1]]);
          await run(sql);
          for (const params of [undefined, []]) {
            t.strictSame(await run("SELECT 'a' = 'A', @@collation_connection", params), [[0, 'utf8mb4_bin']], sql);
          }
          // In MariaDB, bound values have the collation of SET NAMES, not collation_connection.
          if (sql.startsWith('SET NAMES'))
            t.strictSame(await run('SELECT ? = ?', ['ä😀', 'Ä😀']), [[0]], `${sql}, bound`);
          await run('SET character_set_results = NULL');
          await run('SET character_set_client = latin1');
          t.strictSame(
            await run("SELECT 'a' = 'A', 'é長😀'"),
            [[0, 'é長😀']],
            `${sql}, and another result character set`,
          );
          t.strictSame(await encoding(run), ['utf8mb4', 'utf8mb4', 'utf8mb4', 'utf8mb4_bin']);
        }
      });

      t.test(
        'A (attack): in a kept session, an encoding that changes without a state-change report is reset',
        async (t) => {
          for (const sqls of [
            ['SET @@character_set_results = latin1'],
            ["SET sql_mode = '', @@character_set_results = latin1"],
            ['SET @@`character_set_client` = latin1'],
            ["SET session_track_system_variables = ''", 'SET character_set_results = latin1'],
            ["SET session_track_system_variables = ''", 'SET character_set_client = latin1'],
          ]) {
            const run = await openSession(url);
            for (const sql of sqls) await run(sql);
            t.strictSame(await run("SELECT 'é長😀'"), [['é長😀']], sqls.join('; '));
            t.strictSame((await encoding(run)).slice(0, 3), ['utf8mb4', 'utf8mb4', 'utf8mb4']);
          }
        },
      );

      t.test('A6: in a kept session, a connection character set that is set alone stays', async (t) => {
        for (const sql of ['SET collation_connection = latin1_bin', 'SET character_set_connection = latin1']) {
          const run = await openSession(url);
          await run(sql);
          const collation = sql.includes('bin') ? 'latin1_bin' : 'latin1_swedish_ci';
          for (let round = 0; round < 2; round++) {
            t.strictSame(await encoding(run), ['utf8mb4', 'latin1', 'utf8mb4', collation]);
            t.strictSame(await run("SELECT 'é', HEX('é'), _utf8mb4'長😀'"), [['é', 'E9', '長😀']], sql);
            t.strictSame(await run("SELECT 'é' = 'É'"), [[sql.includes('bin') ? 0 : 1]]);
          }
        }
      });

      t.test('A6: in a kept session, SET NAMES of another character set acts as SET NAMES utf8mb4', async (t) => {
        await server.sql('CREATE TABLE IF NOT EXISTS home.texts (a TEXT CHARACTER SET utf8mb4)');
        const run = await openSession(url);
        await run('SET NAMES utf8mb4');
        const expected = await encoding(run);
        for (const sql of ['SET NAMES latin1', 'SET NAMES utf8', "SET NAMES latin1 COLLATE 'latin1_bin'"]) {
          await run('SET NAMES utf8mb4 COLLATE utf8mb4_bin');
          await run(sql);
          t.strictSame(await encoding(run), expected, sql);
          await run("INSERT INTO texts VALUES ('é長😀'), (?)", ['é長😀']);
        }
        await run('SET CHARACTER SET latin1');
        t.strictSame((await encoding(run)).slice(0, 3), ['utf8mb4', 'utf8mb4', 'utf8mb4']);
        t.strictSame(await run('SELECT DISTINCT BINARY a = BINARY ? FROM texts', ['é長😀']), [[1]]);
      });
    });

    t.test('A3: init_connect cannot disable --read_only', async (t) => {
      await setInitConnect(t, server, 'SET SESSION TRANSACTION READ WRITE; SET @x = 5');
      const { url } = await start(t, '--read_only');
      for (let round = 0; round < 2; round++) {
        t.strictSame((await query(url, 'SELECT @x', plain)).rows, [[5]]);
        t.match((await query(url, 'INSERT INTO t VALUES (1)', plain)).last.error, { code: 1792 });
      }
    });
  });
}

type Run = (sql: string, params?: readonly unknown[]) => Promise<readonly (readonly unknown[])[]>;

async function openSession(url: string): Promise<Run> {
  const body = { session: { max_idle_time: 60 } };
  const { last } = await query(url, 'DO 1', { body, user: 'root' });
  return async (sql, params) => {
    const request = { session: { id: last.session_id }, ...(params && { params }) };
    const answer = await query(url, sql, { body: request, user: 'root' });
    if (answer.last.error !== null) throw new Error(`${sql}: ${answer.last.error.message}`);
    return answer.rows;
  };
}

async function encoding(run: Run): Promise<readonly unknown[]> {
  const rows = await run(
    'SELECT @@character_set_client, @@character_set_connection, @@character_set_results, @@collation_connection',
  );
  return rows[0] ?? [];
}

/** @returns a function that clears init_connect */
async function setInitConnect(t: Test, server: PrivateServer, value: string): Promise<() => Promise<unknown>> {
  const unset = () => server.sql("SET GLOBAL init_connect = ''");
  t.teardown(unset);
  await server.sql(`SET GLOBAL init_connect = '${value.replaceAll("'", "''")}'`);
  return unset;
}

interface DatabendAnswer {
  readonly data: unknown;
  readonly error: unknown;
  readonly session: object;
}

let requests = 0;

async function asDatabend(url: string, sql: string, who: Credentials, session = {}): Promise<DatabendAnswer> {
  const headers = { 'x-databend-query-id': `state-${++requests}` };
  const reply = await post(url, { sql, session }, { ...who, headers });
  return reply.json as unknown as DatabendAnswer;
}
