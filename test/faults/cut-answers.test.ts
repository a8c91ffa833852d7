import { createHash, randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { figure, measured, testMsMax } from '../support/form.ts';
import { startProxy } from '../support/proxy.ts';
import { generator, pick, seedOf } from '../support/random.ts';
import { sharedServers } from '../support/servers.ts';
import { get, post, type Reply, type SluiceProcess, split, startSluice } from '../support/sluice.ts';
import { until } from '../support/until.ts';

/*
 * Answers that are cut at a random byte on their way to the client. The client asks again until it has each answer completely.
 * The result must equal a direct read from the database. A query whose client never received its id must be cancelled.
 */

const runCount = figure(36, 1_000);
/** The fewest cut answers for the test to be meaningful. */
const cutCountMin = figure(runCount / 4, runCount / 2);
const cutPostCount = figure(20, 400);
const lanes = 10;
const tableRows = 4_000;
const resultTimeoutSecs = 3;
/**
 * How long statements may stay in the process list after their clients disconnected. MariaDB may take two seconds for each KILL
 * whose victim sleeps, because it waits that long for the victim's lock, and it handles kills one after the other.
 */
const stopMsMax = { mariadb: 30_000, mysql: 20_000 };

for (const server of await sharedServers()) {
  t.test(`on ${server.kind}`, { timeout: testMsMax }, async (t) => {
    const name = `cut_${randomBytes(4).toString('hex')}`;
    const { port } = new URL(server.url);
    await server.sql(
      `CREATE DATABASE ${name}; USE ${name}; CREATE TABLE words (i INT PRIMARY KEY, word VARCHAR(200) CHARACTER SET ascii);
       CREATE USER ${name}@'%'; GRANT ALL ON ${name}.* TO ${name}@'%';
       SET SESSION ${server.kind === 'mysql' ? 'cte_max_recursion_depth' : 'max_recursive_iterations'} = 100000;
       INSERT INTO words WITH RECURSIVE c AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM c WHERE i < ${tableRows})
         SELECT i, CONCAT(SHA2(i, 512), IF(i % 7 = 0, '","', '')) FROM c`,
    );
    const login = { user: name };
    const sluice = await startSluice([
      ...['--mysql_url', `mysql://root@127.0.0.1:${port}/${name}`, '--drain_secs', '0', '--connection_idle_secs', '2'],
      ...['--result_timeout_secs', `${resultTimeoutSecs}`, '--single_page_results_max', '10000'],
    ]);
    t.teardown(async () => {
      await sluice.kill();
      await server.sql(`DROP USER ${name}; DROP DATABASE ${name}`);
    });
    const running = async (): Promise<number> =>
      Number(
        await server.sql(
          `SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = '${name}' AND COMMAND <> 'Sleep'`,
        ),
      );

    await t.test('repeated until complete, the answers equal a direct read from the database', async (t) => {
      const seed = seedOf(t);
      const cuts = generator(seed);
      const proxy = await startProxy(t, portOf(sluice), {
        // The cut is often in the head or the first rows, else anywhere on a connection that serves several answers.
        cutAfter: () => cuts(pick(cuts, [400, 3_000, 60_000, 2_000_000])),
        cutBy: () => (cuts(2) === 0 ? 'reset' : 'end'),
      });
      const url = `http://127.0.0.1:${proxy.port}`;
      let cutCount = 0;
      let pageCount = 0;
      const again = async (ask: () => Promise<Reply>): Promise<Reply> => {
        for (;;) {
          try {
            return await ask();
          } catch {
            cutCount++;
          }
        }
      };
      const wrong: string[] = [];

      const run = async (number: number): Promise<void> => {
        const random = generator(seed, number);
        const count = 1 + random(tableRows);
        const from = random(tableRows - count + 1);
        const where = `i > ${from} AND i <= ${from + count}`;
        const pageRows = pick(random, [1 + random(20), 100, 1_000, 10_000].slice(count > 500 ? 1 : 0));
        const sql = `SELECT i, word FROM words WHERE ${where} ORDER BY i`;
        const pagination = { max_rows_per_page: pageRows, wait_time_secs: 5 };
        const hash = createHash('sha256');
        let rows = 0;
        let reply = await again(() => post(url, { sql, pagination }, login));
        for (;;) {
          pageCount++;
          const { head, rowsText } = split(reply.text);
          if (head.state === 'Failed') throw new Error(reply.text);
          if (rowsText !== '') hash.update(`${rows === 0 ? '' : ','}${rowsText}`);
          // No cell contains brackets.
          rows += rowsText === '' ? 0 : rowsText.split('],[').length;
          const { next_uri } = head;
          if (next_uri === null) {
            // If the answer to the first try was lost, the query has ended already, which also gives 200.
            const final = await again(() => get(url, head.final_uri, login));
            if (final.status !== 200) wrong.push(`run ${number}: final_uri: ${final.status} ${final.text}`);
            break;
          }
          reply = await again(() => get(url, next_uri, login));
          if (reply.status !== 200) throw new Error(`run ${number}: ${next_uri}: ${reply.status} ${reply.text}`);
        }
        const direct = await server.sql(
          `SELECT CONCAT('[', i, ',"', REPLACE(word, '"', '\\\\"'), '"]') FROM words WHERE ${where} ORDER BY i`,
          { database: name },
        );
        const expected = createHash('sha256').update(direct.replaceAll('\n', ',')).digest('hex');
        if (rows !== count || hash.digest('hex') !== expected) wrong.push(`run ${number}: ${rows} of ${count} rows`);
      };

      let next = 0;
      const lane = async (): Promise<void> => {
        while (next < runCount) await run(next++);
      };
      await Promise.all(Array.from({ length: lanes }, lane));
      t.strictSame(wrong, [], 'every SHA-256 equals that of the direct read');
      t.ok(cutCount >= cutCountMin, `${cutCount} answers were cut`);
      measured(t, `${runCount} reads, ${pageCount} pages, ${cutCount} answers cut, ${wrong.length} wrong`);
    });

    await t.test('a statement whose POST is cut before its answer is cancelled', async (t) => {
      const seed = seedOf(t);
      await server.sql(`CREATE TABLE ${name}.held (i INT)`);
      const before = sluice.descriptors();
      const statements = [
        'SELECT SLEEP(600)',
        'SELECT SHA2(a.word, 512), SLEEP(0.1) FROM words a, words b',
        'SELECT COUNT(*) FROM words a, words b, words c WHERE SHA2(CONCAT(a.word, b.word, c.word), 512) = 0',
        'INSERT INTO held SELECT a.i + SLEEP(1) FROM words a, words b',
      ];
      const one = async (number: number): Promise<void> => {
        const random = generator(seed, number);
        const abort = new AbortController();
        const body = {
          sql: pick(random, statements),
          pagination: { wait_time_secs: 40, max_rows_per_page: 1_000_000 },
        };
        const reply = post(sluice.url, body, { ...login, signal: abort.signal });
        await Promise.all([
          t.rejects(reply, `no answer came to POST ${number}`),
          delay(random(150)).then(() => abort.abort()),
        ]);
      };
      for (let number = 0; number < cutPostCount; number += lanes) {
        await Promise.all(Array.from({ length: lanes }, (_, lane) => one(number + lane)));
      }
      const beganMs = performance.now();
      await until(running, (count) => count === 0);
      const tookMs = Math.round(performance.now() - beganMs);
      t.ok(tookMs <= stopMsMax[server.kind], `no statement runs ${tookMs} ms after the last POST`);
      t.equal(await server.sql(`SELECT COUNT(*) FROM ${name}.held`), '0', 'their INSERTs leave no rows');
      measured(t, `${cutPostCount} POSTs cut before their answer; ${tookMs} ms after the last nothing runs`);
      const descriptors = await until(
        () => sluice.descriptors(),
        (count) => count <= before + 2 * lanes,
      );
      t.ok(descriptors <= before + 2 * lanes, `${before} descriptors before, ${descriptors} after`);
    });

    await t.test('a statement whose first answer is cut is cancelled if no request follows', async (t) => {
      const seed = seedOf(t);
      const cuts = generator(seed);
      // Within the head of the answer, so the client cannot know the query id.
      const proxy = await startProxy(t, portOf(sluice), { cutAfter: () => cuts(150) });
      const one = async (): Promise<void> => {
        const body = { sql: 'SELECT word, SLEEP(600) FROM words', pagination: { wait_time_secs: 0 } };
        await t.rejects(post(`http://127.0.0.1:${proxy.port}`, body, login), 'the answer is cut');
      };
      await Promise.all(Array.from({ length: lanes }, one));
      t.ok((await running()) > 0, 'the statements run until their results expire');
      const beganMs = performance.now();
      // No result has expired before this point. Each read of the process list opens a connection.
      await delay((resultTimeoutSecs - 1) * 1_000);
      await until(running, (count) => count === 0);
      const tookMs = Math.round(performance.now() - beganMs);
      t.ok(tookMs <= resultTimeoutSecs * 1_000 + stopMsMax[server.kind], `no statement runs ${tookMs} ms later`);
      t.notMatch(sluice.log(), /"level":50/, 'the log reports no defect');
    });
  });
}

function portOf(sluice: SluiceProcess): number {
  return Number(new URL(sluice.url).port);
}
