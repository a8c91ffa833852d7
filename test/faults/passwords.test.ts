import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { figure, measured } from '../support/form.ts';
import { listen } from '../support/proxy.ts';
import { sharedServers } from '../support/servers.ts';
import { post, query, startSluice } from '../support/sluice.ts';
import { p99MsMax } from '../support/traffic.ts';
import { until } from '../support/until.ts';

const failuresMax = 20;
const attemptsPerSec = 200;
const attackMs = figure(1_000, 2_000);
const guesses = (attemptsPerSec * attackMs) / 1_000;
const aloneMs = figure(500, 1_000);

interface LoginCounter {
  readonly port: number;
  /** How often the service sent the user name to the database. */
  readonly asked: number;
  /** How often the database refused the user. */
  readonly refused: number;
}

/** A proxy to the database that counts the logins of one user. The connections do not use TLS. */
async function countLogins(t: Test, port: number, user: string): Promise<LoginCounter> {
  let asked = 0;
  let refused = 0;
  const ownPort = await listen(t, (near) => {
    const far = connect({ port, host: '127.0.0.1', noDelay: true });
    near.setNoDelay(true);
    near.on('data', (chunk) => {
      if (chunk.includes(`${user}\0`)) asked++;
    });
    far.on('data', (chunk) => {
      if (chunk.includes(`Access denied for user '${user}'`)) refused++;
    });
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      from.on('error', () => {});
      from.on('close', () => to.destroy());
      from.pipe(to);
    }
  });
  return {
    port: ownPort,
    get asked() {
      return asked;
    },
    get refused() {
      return refused;
    },
  };
}

function quantile(values: readonly number[], share: number): number {
  return [...values].sort((a, b) => a - b)[Math.floor(share * (values.length - 1))] as number;
}

for (const server of await sharedServers()) {
  const { kind } = server;
  const options = { timeout: 540_000 };
  t.test(
    `${kind}: password guessing costs the database little and does not slow down other users`,
    options,
    async (t) => {
      const suffix = randomBytes(4).toString('hex');
      const [guessed, known, other] = ['guessed', 'known', 'other'].map((name) => `${name}_${suffix}`) as [
        string,
        string,
        string,
      ];
      await server.sql(
        `CREATE USER ${guessed}@'%' IDENTIFIED BY 'right'; CREATE USER ${known}@'%' IDENTIFIED BY 'right';
       CREATE USER ${other}@'%' IDENTIFIED BY 'pw'`,
      );
      const logins = await countLogins(t, server.port, guessed);
      const sluice = await startSluice([
        ...[
          '--mysql_url',
          `mysql://root@127.0.0.1:${logins.port}/`,
          '--auth_failures_max',
          `${failuresMax}`,
          '--drain_secs',
          '0',
        ],
        ...['--auth_cache_secs', '60'],
      ]);
      t.teardown(async () => {
        await sluice.stop();
        await server.sql(`DROP USER ${guessed}, ${known}, ${other}`);
      });
      const logIn = (user: string, password: string) => post(sluice.url, { sql: 'SELECT 1' }, { user, password });
      /** Runs statements of another user one after the other, and returns the latency of each in milliseconds. */
      const traffic = async (forMs: number): Promise<number[]> => {
        const times: number[] = [];
        for (const end = performance.now() + forMs; performance.now() < end; ) {
          const begin = performance.now();
          await query(sluice.url, 'SELECT 1', { user: other, password: 'pw' });
          times.push(performance.now() - begin);
          await delay(5);
        }
        return times;
      };
      t.equal((await logIn(known, 'right')).status, 200);
      const alone = await traffic(aloneMs);

      const during = traffic(attackMs);
      const statuses: Promise<number>[] = [];
      const retryAfter: unknown[] = [];
      const begin = performance.now();
      while (statuses.length < guesses) {
        const due = Math.min(guesses, ((performance.now() - begin) * attemptsPerSec) / 1_000);
        while (statuses.length < due) {
          const attempt = logIn(guessed, `guess ${statuses.length}`);
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
      const { asked, refused } = logins;

      const countOf = (status: number): number => answers.filter((answer) => answer === status).length;
      measured(
        t,
        `${answers.length} guesses: ${countOf(401)} × 401, ${countOf(429)} × 429; the database was asked ${asked} times; ` +
          `p99 of another user ${quantile(alone, 0.99).toFixed(1)} ms alone, ${quantile(beside, 0.99).toFixed(1)} ms beside them`,
      );
      t.equal(countOf(401), failuresMax);
      t.equal(countOf(429), answers.length - failuresMax);
      t.equal(asked, failuresMax, 'after that the database gets no login');
      t.equal(refused, failuresMax);
      const besideMs = quantile(beside, 0.99);
      t.ok(besideMs <= p99MsMax, `p99 of another user: ${besideMs.toFixed(1)} ms; the limit is ${p99MsMax} ms`);
      t.ok(retryAfter.every((secs) => Number(secs) >= 1 && Number(secs) <= 60));

      t.equal((await logIn(guessed, 'right')).status, 429, 'not for the right password either');
      t.equal((await logIn(other, 'pw')).status, 200);
      t.equal((await logIn(known, 'right')).status, 200);
      t.equal(logins.asked, asked);
      const lines = await until(
        () =>
          sluice
            .log()
            .split('\n')
            .filter((line) => line.includes('user_blocked')),
        (lines) => lines.length > 0,
      );
      t.equal(lines.length, 1, 'it is logged once');
      t.match(JSON.parse(lines[0] as string), { level: 40, user: guessed, failures: failuresMax });
    },
  );
}
