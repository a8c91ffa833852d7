import t from 'tap';
import { setVariableCommands } from '#src/worker/variables.js';
import { open } from '../support/executor.ts';
import { sharedServers } from '../support/servers.ts';
import { until } from '../support/until.ts';

// Both servers share the machine with other processes.
t.setTimeout(540_000);

t.test('names and values of variables cannot inject SQL', (t) => {
  const commands = setVariableCommands(
    Object.entries({
      SQL_Mode: "ANSI'\\",
      lock_wait_timeout: '7',
      long_query_time: '-2.50',
      time_zone: '',
      'x = 1, y': '1',
      'a`b': '1',
      '1a': '1',
      é: '1',
      '': '1',
      character_set_results: 'latin1',
      collation_connection: 'latin1_bin',
      session_track_schema: '0',
      net_write_timeout: '1',
      wait_timeout: '1',
      insert_id: '1',
      tx_read_only: '0x0',
    }),
    true,
  );
  t.strictSame(
    commands.map((command) => command.type === 'query' && command.sql),
    [
      "SET @@SESSION.`sql_mode` = CONVERT(X'414e5349275c' USING utf8mb4)",
      'SET @@SESSION.`lock_wait_timeout` = 7',
      'SET @@SESSION.`long_query_time` = -2.50',
      "SET @@SESSION.`time_zone` = CONVERT(X'' USING utf8mb4)",
    ],
  );
  t.equal(setVariableCommands([['tx_read_only', 'OFF']], false).length, 1);
  t.equal(setVariableCommands([['collation_connection', 'utf8mb4_bin']], true).length, 1);
  t.end();
});

for (const server of await sharedServers()) {
  t.test(`the variables of statements on ${server.kind}`, async (t) => {
    const variables = {
      sql_mode: 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES',
      time_zone: '+03:00',
      foreign_key_checks: 'OFF',
      UNIQUE_CHECKS: '0',
      sql_auto_is_null: 'on',
      lock_wait_timeout: '77',
      long_query_time: '2.5',
      optimizer_switch: 'mrr=off',
      tx_isolation: 'SERIALIZABLE',
      transaction_isolation: 'SERIALIZABLE',
      collation_connection: 'utf8mb4_bin',
    };
    const refused = {
      max_threads: '8',
      role: "'; DROP DATABASE x; --",
      sql_select_limit: 'many',
      max_join_size: '5x',
      character_set_results: 'latin1',
      net_write_timeout: '3',
      global: '1',
      'autocommit = 0, @@session.sql_mode': '1',
    };
    const isolation = server.kind === 'mysql' ? '@@transaction_isolation' : '@@tx_isolation';
    const look = `SELECT @@time_zone, @@foreign_key_checks, @@unique_checks, @@sql_auto_is_null, @@lock_wait_timeout,
      @@long_query_time, ${isolation}, @@collation_connection, @@character_set_results, @@net_write_timeout, @@autocommit,
      LENGTH(@@sql_mode)`;
    const expected = '["+03:00",0,0,1,77,2.500000,"SERIALIZABLE","utf8mb4_bin","utf8mb4",86400,1,32]';

    for (const after of ['clean', 'pin', 'keep'] as const) {
      await t.test(`are set before, and ${after === 'keep' ? 'stay' : 'are reset'} (${after})`, async (t) => {
        const { peer } = await open(t, server);
        const before = (await peer.run(look)).batches.join();
        const reported = await peer.run(look, { after, variables: { ...refused, ...variables, ...refused } });
        t.match(reported.end, { ok: true, outcome: { warnings: 0 } });
        t.equal(reported.batches.join(), expected);
        t.equal((await peer.run(look)).batches.join() === before, after !== 'keep');
        t.equal((await peer.run(look)).batches.join() === expected, after === 'keep');
      });
    }

    await t.test('are reported as the database has them', async (t) => {
      const { peer } = await open(t, server);
      const asked = { ...refused, foreign_key_checks: '0', time_zone: '+03:00', LOCK_wait_timeout: '77' };
      const { session } = await peer.run('DO 0', { after: 'pin', variables: asked });
      t.strictSame(session?.variables, { foreign_key_checks: 'OFF', time_zone: '+03:00', lock_wait_timeout: '77' });
      const again = await peer.run('SELECT 1', { after: 'pin', variables: session?.variables ?? {} });
      t.strictSame(again.session, session, 'and can be sent back');
      await peer.run('BEGIN', { after: 'pin', variables: asked });
      await peer.run("SET time_zone = '+04:00'", { after: 'pin', variables: asked });
      const changed = { ...session?.variables, time_zone: '+04:00' };
      t.match(await peer.run('DO 0', { after: 'pin', variables: changed }), { session: { variables: changed } });
      t.match(await peer.run('DO 0', { after: 'pin', variables: asked }), {
        session: { variables: session?.variables },
      });
    });

    await t.test('do not bypass --read_only', async (t) => {
      const { database, peer } = await open(t, server, { readOnly: true });
      await server.sql('CREATE TABLE t (a INT)', { database });
      const asked = { transaction_read_only: 'OFF', tx_read_only: '0', autocommit: '0', time_zone: '+03:00' };
      for (const after of ['clean', 'pin', 'keep'] as const) {
        const reported = await peer.run('INSERT INTO t VALUES (1)', { after, variables: asked });
        t.match(reported.end, { failure: { code: 1792 } }, after);
        t.equal((await peer.run('SELECT @@time_zone', { after, variables: asked })).batches.join(), '["+03:00"]');
      }
    });

    await t.test('can be many, and a statement with many can be cancelled', async (t) => {
      const { peer } = await open(t, server);
      const many = Object.fromEntries(Array.from({ length: 500 }, (_, number) => [`no_such_${number}`, `${number}`]));
      for (const after of ['clean', 'pin', 'keep'] as const) {
        t.equal((await peer.run('SELECT 1', { after, variables: many })).batches.join(), '[1]');
        const idles = peer.idles;
        const statement = peer.start('SELECT SLEEP(100)', { after, variables: many });
        peer.post({ type: 'cancel', statement });
        await until(() => peer.idles > idles);
        t.equal((await peer.run('SELECT 2', { after, variables: { time_zone: '+03:00' } })).batches.join(), '[2]');
      }
    });
  });
}
