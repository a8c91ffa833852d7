import { randomUUID } from 'node:crypto';
import t from 'tap';
import { CleanState } from '#src/worker/clean-state.js';
import { Connection } from '#src/worker/connection.js';
import { sharedServers } from '../support/servers.ts';

for (const server of await sharedServers()) {
  for (const withDatabase of [true, false]) {
    const title = `${server.kind}, ${withDatabase ? 'a' : 'no'} database selected`;
    t.test(`a connection is brought back to its clean state whatever statements did (${title})`, async (t) => {
      const [home, away, role] = [0, 0, 0].map(() => `c_${randomUUID().replaceAll('-', '').slice(0, 12)}`);
      await server.sql(
        `CREATE DATABASE ${home}; CREATE DATABASE ${away}; CREATE TABLE ${home}.t (a INT);
        CREATE ROLE ${role}; GRANT ${role} TO root@localhost`,
      );
      t.teardown(() => server.sql(`DROP DATABASE ${home}; DROP DATABASE ${away}; DROP ROLE ${role}`));
      const connection = await Connection.open({
        address: { socketPath: server.socketPath },
        user: 'root',
        password: '',
        timeoutMs: 10_000,
      });
      t.teardown(() => connection.destroy());
      if (withDatabase) await connection.query(`USE ${home}`);
      const clean = await CleanState.of(connection, withDatabase ? (home as string) : null);
      const { id } = connection;
      const look = `SELECT DATABASE(), @x, @@character_set_results, @@sql_mode, @@net_write_timeout, FOUND_ROWS(),
        CURRENT_ROLE(), IS_FREE_LOCK('${home}')`;
      await connection.query('SELECT 1 LIMIT 0');
      const before = await connection.query(look);
      for (const sql of [
        `USE ${away}`,
        "SET @x = 1, sql_mode = 'ANSI', net_write_timeout = 7",
        `CREATE TEMPORARY TABLE ${home}.t (b INT)`,
        'BEGIN',
        `SELECT GET_LOCK('${home}', 0)`,
        "PREPARE p FROM 'SELECT 1'",
        `SET ROLE ${role}`,
        'SET character_set_results = latin1',
        'SELECT 1 UNION SELECT 2',
      ]) {
        await connection.query(sql);
      }
      t.notSame(await connection.query(look), before, 'the statements can be noticed');
      await clean.restore(connection, `USE ${away}`);
      t.equal(connection.id, id, 'it is the same connection');
      t.strictSame(await connection.query(look), before);
      t.strictSame(await connection.query(`SELECT * FROM ${home}.t`), [], 'the temporary table is gone');
      t.equal(await server.sql(`SELECT IS_FREE_LOCK('${home}')`), '1');
      await t.rejects(connection.query('EXECUTE p'), { code: 'ER_UNKNOWN_STMT_HANDLER' });
    });
  }

  t.test(`a state that cannot be restored is an error (${server.kind})`, async (t) => {
    const home = `c_${randomUUID().replaceAll('-', '').slice(0, 12)}`;
    await server.sql(`CREATE DATABASE ${home}`);
    const connection = await Connection.open({
      address: { socketPath: server.socketPath },
      user: 'root',
      password: '',
      timeoutMs: 10_000,
    });
    t.teardown(() => connection.destroy());
    await connection.query(`USE ${home}`);
    const clean = await CleanState.of(connection, home);
    await server.sql(`DROP DATABASE ${home}`);
    await t.rejects(clean.restore(connection, `DROP DATABASE ${home}`), { code: 'ER_BAD_DB_ERROR' });
  });
}
