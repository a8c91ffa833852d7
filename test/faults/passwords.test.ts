import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { measured } from '../support/form.ts';
import { isInstalled, type PrivateServer, sharedServers, startServer } from '../support/servers.ts';
import { post, query, startSluice } from '../support/sluice.ts';
import { p99MsMax } from '../support/traffic.ts';
import { until } from '../support/until.ts';

const failuresMax = 20;
const attemptsPerSec = 200;
const attackMs = 2_000;
const guesses = (attemptsPerSec * attackMs) / 1_000;
const aloneMs = 1_000;

/** Connections on which nobody logged in, since the database began. */
async function refusedLogins(server: PrivateServer): Promise<number> {
  return Number((await server.sql("SHOW GLOBAL STATUS LIKE 'Aborted_connects'")).split('\t')[1]);
}

function quantile(values: readonly number[], share: number): number {
  return [...values].sort((a, b) => a - b)[Math.floor(share * (values.length - 1))] as number;
}

for (const { kind } of await sharedServers()) {
  const options = { skip: !isInstalled(kind), timeout: 540_000 };
  t.test(`${kind}: guessing a password costs the database little and other users nothing`, options, async (t) => {
    const server = await startServer(kind);
    t.teardown(() => server.stop());
    await server.sql(
      "CREATE USER guessed@'%' IDENTIFIED BY 'right'; CREATE USER known@'%' IDENTIFIED BY 'right'; CREATE USER other@'%' IDENTIFIED BY 'pw'",
    );
    const sluice = await startSluice([
      ...['--mysql_url', server.url, '--auth_failures_max', `${failuresMax}`, '--drain_secs', '0'],
      ...['--auth_cache_secs', '60'],
    ]);
    t.teardown(() => sluice.stop());
    const logIn = (user: string, password: string) => post(sluice.url, { sql: 'SELECT 1' }, { user, password });
    /** Statements of another user, one after the other, and how long each took, in milliseconds. */
    const traffic = async (forMs: number): Promise<number[]> => {
      const times: number[] = [];
      for (const end = performance.now() + forMs; performance.now() < end; ) {
        const begin = performance.now();
        await query(sluice.url, 'SELECT 1', { user: 'other', password: 'pw' });
        times.push(performance.now() - begin);
        await delay(5);
      }
      return times;
    };
    t.equal((await logIn('known', 'right')).status, 200);
    const alone = await traffic(aloneMs);

    const before = await refusedLogins(server);
    const during = traffic(attackMs);
    const statuses: Promise<number>[] = [];
    const retryAfter: unknown[] = [];
    const begin = performance.now();
    while (statuses.length < guesses) {
      const due = Math.min(guesses, ((performance.now() - begin) * attemptsPerSec) / 1_000);
      while (statuses.length < due) {
        const attempt = logIn('guessed', `guess ${statuses.length}`);
        statuses.push(
          attempt.then(({ status, headers }) => {
            if (status === 429) retryAfter.push(headers['retry-after']);
            return status;
          }),
        );
      }
      await delay(2);
    }
    const answers = await Promise.all(statuses);
    const beside = await during;
    const asked = (await refusedLogins(server)) - before;

    const told = (status: number): number => answers.filter((answer) => answer === status).length;
    measured(
      t,
      `${answers.length} guesses: ${told(401)} × 401, ${told(429)} × 429; the database was asked ${asked} times; ` +
        `p99 of another user ${quantile(alone, 0.99).toFixed(1)} ms alone, ${quantile(beside, 0.99).toFixed(1)} ms beside them`,
    );
    t.equal(told(401), failuresMax);
    t.equal(told(429), answers.length - failuresMax);
    t.equal(asked, failuresMax, 'after that the database is not asked');
    const besideMs = quantile(beside, 0.99);
    t.ok(besideMs <= p99MsMax, `p99 of another user: ${besideMs.toFixed(1)} ms, and ${p99MsMax} ms are allowed`);
    t.ok(retryAfter.every((secs) => Number(secs) >= 1 && Number(secs) <= 60));

    t.equal((await logIn('guessed', 'right')).status, 429, 'nor about the right password');
    t.equal((await logIn('other', 'pw')).status, 200);
    t.equal((await logIn('known', 'right')).status, 200);
    t.equal((await refusedLogins(server)) - before, asked);
    const lines = await until(
      () =>
        sluice
          .log()
          .split('\n')
          .filter((line) => line.includes('user_blocked')),
      (lines) => lines.length > 0,
    );
    t.equal(lines.length, 1, 'it is logged once');
    t.match(JSON.parse(lines[0] as string), { level: 40, user: 'guessed', failures: failuresMax });
  });
}
