// The progress that `stats` reports while a statement runs on a real server.

import { randomUUID } from 'node:crypto';
import t from 'tap';
import { sharedServers } from '../support/servers.ts';
import { type Credentials, get, post, query, startSluice } from '../support/sluice.ts';
import { until } from '../support/until.ts';

t.setTimeout(540_000);

const tableRows = 20_000;

interface Scan {
  readonly rows: number;
  readonly known: boolean;
  readonly estimated_rows: number | null;
}

for (const server of await sharedServers()) {
  t.test(server.kind, async (t) => {
    const isMariadb = server.kind === 'mariadb';
    const name = `progress_${randomUUID().replaceAll('-', '').slice(0, 12)}`;
    const digits =
      '(SELECT 0 AS d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)';
    // By default, the optimizer knows the number of rows from so few pages that its estimate can be off by a factor of three.
    await server.sql(`
      CREATE DATABASE ${name}; USE ${name}; CREATE TABLE t (a INT PRIMARY KEY, b INT) STATS_SAMPLE_PAGES=1000;
      INSERT INTO t SELECT a.d + 10 * b.d + 100 * c.d + 1000 * d.d + 10000 * e.d, 1
        FROM ${digits} a, ${digits} b, ${digits} c, ${digits} d, (SELECT 0 AS d UNION SELECT 1) e;
      ANALYZE TABLE t;
      CREATE USER ${name}@'%' IDENTIFIED BY 'pw'; GRANT SELECT, UPDATE ON ${name}.* TO ${name}@'%'`);
    t.teardown(() => server.sql(`DROP DATABASE ${name}; DROP USER ${name}@'%'`));
    const sluice = await startSluice(['--mysql_url', server.url + name, '--drain_secs', '0', '--worker_threads', '1']);
    t.teardown(() => sluice.stop());
    const root = { user: 'root' };
    const plain = { user: name, password: 'pw' };

    /** Polls the pages of a statement until its scan progress is as wanted, then cancels it. */
    const watch = async (sql: string, who: Credentials, isWanted: (scan: Scan) => boolean): Promise<Scan[]> => {
      const { json } = await post(sluice.url, { sql, pagination: { wait_time_secs: 1 } }, who);
      const scans: Scan[] = [];
      let next: string | null = json.next_uri;
      await until(async () => {
        if (next === null) throw new Error(`${sql} has ended: ${JSON.stringify(scans.at(-1))}`);
        const reply = await get(sluice.url, next, who);
        next = reply.json.next_uri;
        scans.push(reply.json.stats['scan_progress'] as Scan);
        return isWanted(scans.at(-1) as Scan);
      });
      await get(sluice.url, json.final_uri, who);
      return scans;
    };
    const isSane = ({ rows, known, estimated_rows }: Scan): boolean =>
      known && rows > 0 && rows < tableRows && estimated_rows !== null && estimated_rows > tableRows / 3;

    t.test('E (scan_progress): a running SELECT reports the rows examined, and an estimate', async (t) => {
      // Each row takes a few milliseconds.
      for (const sql of [
        'SELECT COUNT(*) FROM t WHERE b + SLEEP(0.003) = 1',
        'SELECT b, COUNT(*) FROM t WHERE b + SLEEP(0.003) = 1 GROUP BY b ORDER BY 2',
        'UPDATE t SET b = b + SLEEP(0.003)',
      ]) {
        const scans = await watch(sql, root, isSane);
        t.ok(isSane(scans.at(-1) as Scan), `${sql}: ${JSON.stringify(scans.at(-1))}`);
        t.ok(
          scans.every(({ rows }, index) => index === 0 || rows >= (scans[index - 1]?.rows ?? 0)),
          'it never decreases',
        );
      }
    });

    t.test(
      'E (scan_progress): a user without privileges on others sees the progress of its own statements',
      async (t) => {
        const sql = 'SELECT COUNT(*) FROM t WHERE b + SLEEP(0.003) = 1';
        // Such a user may not read MySQL's counters, but may read the plan.
        const isWanted = (scan: Scan): boolean => (isMariadb ? isSane(scan) : scan.estimated_rows !== null);
        const last = (await watch(sql, plain, isWanted)).at(-1);
        t.equal(last?.known, isMariadb);
        if (!isMariadb) t.equal(last?.rows, 0);
      },
    );

    t.test('E (scan_progress): unknown progress is reported as unknown, and does not affect the result', async (t) => {
      const body = { pagination: { wait_time_secs: 1 } };
      const { last, pages, rows } = await query(sluice.url, 'SELECT SLEEP(2.5), 7', { ...plain, body });
      t.strictSame([last.state, rows], ['Succeeded', [[0, 7]]]);
      for (const { json } of pages.slice(0, -1)) {
        t.match(json.stats['scan_progress'], { rows: 0, known: false, estimated_rows: null });
      }
      t.match(last.stats['scan_progress'], { rows: 1, known: false, estimated_rows: null }, 'rows that were returned');
      const quick = await query(sluice.url, 'SELECT 1', plain);
      t.match(quick.last.stats['scan_progress'], { rows: 1, known: false, estimated_rows: null });
    });

    t.test('E (scan_progress): sleeping statements do not block the progress of others', async (t) => {
      const sleeping = Array.from({ length: 12 }, () => watch('SELECT SLEEP(60)', root, () => isOver));
      let isOver = false;
      const scans = await watch('SELECT COUNT(*) FROM t WHERE b + SLEEP(0.003) = 1', root, isSane);
      t.ok(isSane(scans.at(-1) as Scan));
      isOver = true;
      await Promise.all(sleeping);
    });

    t.test('E (scan_progress): a statement whose progress is polled returns the same result', async (t) => {
      const sql = 'SELECT SUM(x.a), COUNT(*) FROM t x JOIN t y ON y.a = x.b WHERE x.a < 700 AND SLEEP(0.003) = 0';
      const body = { pagination: { wait_time_secs: 1 } };
      const { last, rows } = await query(sluice.url, sql, { ...root, body });
      t.equal(last.error, null);
      t.strictSame(
        rows.map((row) => row.map(Number)),
        [[(699 * 700) / 2, 700]],
      );
    });
  });
}
