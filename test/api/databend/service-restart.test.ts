import { Client } from 'databend-driver';
import t from 'tap';
import { sharedServers } from '../../support/servers.ts';
import { startSluice } from '../../support/sluice.ts';
import { cell, Stage } from './stage.ts';

/*
 * A separate process, because one loop of the driver sends the heartbeats of all connections in turn, and a connection without a
 * server delays those of the others.
 */

for (const server of await sharedServers()) {
  t.test(
    `${server.kind}: connections survive a restart of the service, and one with a pinned session gets one error`,
    async (t) => {
      const stage = await Stage.start(t, server);
      const options = ['--mysql_url', stage.server.url, '--worker_threads', '1'];
      let sluice = await startSluice(options);
      t.teardown(() => sluice.kill());
      const { port } = new URL(sluice.url);
      const connect = () => {
        const login = `${stage.user}:${encodeURIComponent(stage.password)}`;
        return new Client(`databend://${login}@127.0.0.1:${port}/${stage.database}?sslmode=disable`).getConn();
      };
      const [plain, holder] = [await connect(), await connect()];
      await plain.exec('SET SESSION group_concat_max_len = 4321');
      await holder.exec('CREATE TABLE outlived (id INT PRIMARY KEY)');
      await holder.exec('BEGIN');
      await holder.exec('INSERT INTO outlived VALUES (1)');
      await sluice.kill();
      sluice = await startSluice([...options, '--http_handler_port', port]);
      t.equal(Number(await cell(plain, 'SELECT @@group_concat_max_len')), 4321);
      await t.rejects(holder.exec('INSERT INTO outlived VALUES (2)'), /APIError/);
      t.equal(await holder.exec('INSERT INTO outlived VALUES (3)').catch(String), 1, 'after that it has a new session');
      t.equal(await stage.direct('SELECT GROUP_CONCAT(id) FROM outlived'), '3');
      for (const connection of [plain, holder]) await connection.close();
    },
  );
}
