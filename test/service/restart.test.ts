import t from 'tap';
import { sharedServers } from '../support/servers.ts';
import { get, post, type SluiceProcess, startSluice } from '../support/sluice.ts';

for (const server of await sharedServers()) {
  t.test(`${server.kind}: a query from before a restart is not found, and the answer says why`, async (t) => {
    const start = (): Promise<SluiceProcess> => startSluice(['--mysql_url', server.url, '--drain_secs', '0']);
    const before = await start();
    const old = (await post(before.url, { sql: 'SELECT 1 UNION SELECT 2', pagination: { max_rows_per_page: 1 } })).json;
    await before.kill();
    const killedMs = Date.now();
    const sluice = await start();
    t.teardown(() => sluice.stop());

    const paths = [old.next_uri as string, old.stats_uri, old.final_uri, `/v1/query/${old.id}/kill`];
    for (const path of paths) {
      const { status, text } = await get(sluice.url, path);
      t.equal(status, 404, path);
      const [, id, startedAt = ''] =
        /^query (\w+) was begun before this server started at (\S+): a restart forgets all queries; send the statement again if it may run twice$/.exec(
          text,
        ) ?? [];
      t.equal(id, old.id, text);
      t.ok(Date.parse(startedAt) >= killedMs && Date.parse(startedAt) <= Date.now(), startedAt);
    }
    t.equal((await get(sluice.url, old.final_uri, { headers: { authorization: undefined } })).status, 401);

    const young = (await post(sluice.url, { sql: 'SELECT 1' })).json;
    const unknown = `${young.id.slice(0, 12)}${'0'.repeat(32)}`;
    t.equal(
      (await get(sluice.url, `/v1/query/${unknown}`)).text,
      `no query ${unknown}`,
      'the id is younger than the server',
    );
    // The age of a query with any other id is unknown, so the answer names the restart as a possible cause.
    const hint = /^; this server has run since (\S+), and a restart forgets all queries$/;
    for (const id of [old.id.slice(1), `${old.id}0`, old.id.toUpperCase().replace(/^0/, 'X')]) {
      const { status, text } = await get(sluice.url, `/v1/query/${id}`);
      t.equal(status, 404, id);
      t.ok(text.startsWith(`no query ${id};`), text);
      const startedAt = Date.parse(hint.exec(text.slice(`no query ${id}`.length))?.[1] ?? '');
      t.ok(startedAt >= killedMs && startedAt <= Date.now(), text);
    }
  });
}
