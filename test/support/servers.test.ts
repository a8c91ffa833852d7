import { existsSync } from 'node:fs';
import { connect } from 'node:net';
import { dirname } from 'node:path';
import t from 'tap';
import { figure } from './form.ts';
import { type DatabaseKind, isInstalled, sharedServers, startServer } from './servers.ts';

t.test('the shared servers answer their own clients', async (t) => {
  const servers = await sharedServers();
  t.equal(servers[0]?.kind, 'mariadb');
  for (const server of servers) {
    t.equal(await server.sql('SELECT 1'), '1', `${server.kind} ${server.version} answers`);
    const cells = "SELECT 1 AS one, 'ä\\tß' AS text, NULL, 0xC3A4; SELECT 0.50; DO 0; SELECT '2001-02-03'";
    t.equal(await server.sql(cells), await server.clientSql(cells), 'the driver gives the same as the client');
    t.equal(await server.clientSql("SELECT 1 AS one, 'ä\tß' AS text", { columnNames: true }), 'one\ttext\n1\tä\tß');
    t.equal(await server.sql('SELECT @@max_connections'), '2500');
    t.equal(await server.sql('SELECT @@local_infile'), '1');
    t.equal(await server.sql('SELECT @@datadir LIKE "%data/"'), '1');
    await t.rejects(server.sql('SELEC'), { message: /1064/ }, 'a failure carries the message of the client');
    t.match(await firstByteOf(server.port), /^\d+$/, 'the port greets');
    t.ok(process.kill(server.pid, 0));
  }
});

for (const kind of ['mariadb', 'mysql'] satisfies DatabaseKind[]) {
  t.test(`a private ${kind} can be killed, paused and restarted`, { skip: !isInstalled(kind) }, async (t) => {
    const server = await startServer(kind, ['--net-write-timeout=77']);
    t.teardown(() => server.stop());
    const { port, pid } = server;
    t.equal(await server.sql('SELECT @@global.net_write_timeout'), '77', 'extra arguments reach the server');
    await server.sql('CREATE DATABASE kept; CREATE TABLE kept.t (b LONGBLOB); INSERT INTO kept.t VALUES ("row")');
    const large = `REPEAT("x", ${figure(16, 64)} * 1024 * 1024)`;
    await server.sql(`INSERT INTO kept.t VALUES (${large}); DELETE FROM kept.t WHERE b <> "row"`);

    await server.terminate();
    t.equal(server.running, false);
    await t.rejects(server.sql('SELECT 1'));
    await server.restart();
    t.equal(server.port, port, 'the port stays');
    t.not(server.pid, pid);
    t.equal(await server.sql('SELECT b FROM kept.t'), 'row', 'the data stays');

    await server.kill();
    await server.restart();
    t.equal(await server.sql('SELECT COUNT(*) FROM kept.t'), '1');

    await server.pause();
    const answer = server.sql('SELECT 2');
    const first = await Promise.race([answer, new Promise((resolve) => setTimeout(resolve, 200, 'silence'))]);
    t.equal(first, 'silence', 'a paused server does not answer');
    server.resume();
    t.equal(await answer, '2');

    const folder = dirname(server.socketPath);
    await server.stop();
    t.equal(existsSync(folder), false, 'no file is left');
  });

  t.test(`${kind} knows users by password over TCP and socket`, { skip: !isInstalled(kind) }, async (t) => {
    const server = (await sharedServers()).find((server) => server.kind === kind);
    if (server === undefined) throw new Error('not among the shared servers');
    await server.sql("CREATE USER support_test@'%' IDENTIFIED BY 'it''s'");
    t.teardown(() => server.sql('DROP USER support_test'));
    t.equal(await server.sql('SELECT 3', { user: 'support_test', password: "it's" }), '3');
    await t.rejects(server.sql('SELECT 3', { user: 'support_test', password: 'wrong' }), { message: /1045/ });
    await t.rejects(
      server.sql('SELECT 3', { user: 'nobody_at_all' }),
      { message: /1045/ },
      'there is no anonymous user',
    );
  });
}

function firstByteOf(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('data', (chunk) => {
      socket.destroy();
      resolve(String(chunk[4]));
    });
    socket.once('error', reject);
  });
}
