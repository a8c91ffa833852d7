import t from 'tap';
import { type More, open, type Peer, type Reported } from '../support/executor.ts';
import { figure, measured, testMsMax } from '../support/form.ts';
import { generator, seedOf } from '../support/random.ts';
import { createTables, randomStatement } from '../support/random-statements.ts';
import { type DatabaseServer, sharedServers } from '../support/servers.ts';

t.setTimeout(testMsMax);

const manyRows = 10_000;

/** Counts what a connection has the database prepare and execute in the binary protocol. */
class Counter {
  readonly #peer: Peer;

  constructor(peer: Peer) {
    this.#peer = peer;
  }

  async of(what: 'prepare' | 'execute' | 'close'): Promise<number> {
    const { batches } = await this.#peer.run(`SHOW SESSION STATUS LIKE 'Com_stmt_${what}'`);
    return Number(/\d+/.exec(batches.join())?.[0]);
  }
}

async function openTables(t: Parameters<typeof open>[0], server: DatabaseServer) {
  const { database, peer } = await open(t, server);
  await createTables(server, database);
  await peer.run("SET sql_mode = ''");
  return { database, peer, counter: new Counter(peer) };
}

/** What a client sees of a statement. */
function seen({ columns, batches, rows, end }: Reported): object {
  return { columns, text: batches.join('\n'), rows, end };
}

for (const server of await sharedServers()) {
  t.test(`${server.kind}: which statements have their rows sent in binary`, async (t) => {
    const { database, peer, counter } = await openTables(t, server);
    await server.sql('CREATE VIEW second AS SELECT * FROM plain', { database });
    await peer.run('CREATE TEMPORARY TABLE mine AS SELECT * FROM every');
    const { kind } = server;
    for (const [sql, isBinary] of [
      ['SELECT * FROM every', true],
      ['  (SELECT i8, t0, f32 FROM every AS e)', true],
      ['SELECT i8 AS renamed, `t0` FROM plain', true],
      ['SELECT * FROM second', true],
      ['SELECT * FROM mine', true],
      // MySQL evaluates some subqueries in another way when they are prepared.
      ['SELECT x.i8 FROM (SELECT i8 FROM every) AS x', kind === 'mariadb'],
      ['WITH w AS (SELECT i8, t0 FROM every) SELECT * FROM w', kind === 'mariadb'],
      ['SELECT JSON_ARRAY(JSON_VALID((SELECT MAX(1e0) FROM every AS o))) FROM every', kind === 'mariadb'],
      ['SELECT i8, COUNT(*), SUM(i8), CONCAT(v, c), dec5 * 2, i64 + 1 FROM every GROUP BY id', true],
      ['SELECT i8 FROM every WHERE t0 > SEC_TO_TIME(f64) ORDER BY f32 * 2', true],
      ['SELECT * FROM every FOR UPDATE', true],
      // Expressions of types that are sent differently.
      ['SELECT t0, SEC_TO_TIME(f64) FROM every', false],
      // A 64-bit integer on MySQL.
      ['SELECT PERIOD_ADD(i32, 1) FROM every', kind === 'mysql'],
      ['SELECT f64 * 2 FROM every', false],
      ['SELECT * FROM computed', false],
      ['SELECT x.t FROM (SELECT ADDTIME(t0, 1) AS t FROM every) AS x', false],
      // Their value depends on the command before.
      ['SELECT i8, ROW_COUNT() FROM every', false],
      ['SELECT i8 FROM every WHERE id < FOUND_ROWS()', false],
      ['SELECT i8, @@warning_count FROM every', false],
      ['SELECT i8 FROM every WHERE @a IS NULL', false],
      // No SELECT, or none that can be prepared as it is.
      ['SHOW TABLES', false],
      ['EXPLAIN SELECT * FROM every', false],
      ["SELECT ':x' FROM every WHERE id = ?", false],
      ['SELECT * FROM no_such_table', false],
      ['SELECT * FROM', false],
      ['SELECT 1 INTO @x', false],
      ['', false],
      // MySQL warns when it is prepared, and the warning would be missing in the count.
      ['SELECT i8 FROM every WHERE CAST(9223372036854775807 AS DATETIME)', kind === 'mariadb'],
    ] as const) {
      const before = await counter.of('execute');
      const open = (await counter.of('prepare')) - (await counter.of('close'));
      const plain = await peer.run(sql);
      t.equal(await counter.of('execute'), before, `text unless many rows are expected: ${sql}`);
      const expecting = await peer.run(sql, { expectsMany: true });
      t.equal((await counter.of('execute')) - before, isBinary ? 1 : 0, sql);
      t.same(seen(expecting), seen(plain), `the same answer: ${sql}`);
      // The servers count statements that they could not prepare as well.
      if (plain.end?.ok) t.equal((await counter.of('prepare')) - (await counter.of('close')), open, `closed: ${sql}`);
    }
  });

  t.test(`${server.kind}: a statement with many rows is read in binary the next time`, async (t) => {
    const { database, peer, counter } = await openTables(t, server);
    await server.sql(
      `CREATE TABLE many (id INT PRIMARY KEY, a INT, t TIME);
      INSERT INTO many WITH d (n) AS (SELECT id FROM every UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)
        SELECT a.n + 10 * b.n + 100 * c.n + 1000 * e.n, a.n, SEC_TO_TIME(a.n) FROM d a, d b, d c, d e`,
      { database },
    );
    const executes = async (sql: string, more: More = {}): Promise<number> => {
      const before = await counter.of('execute');
      await peer.run(sql, more);
      return (await counter.of('execute')) - before;
    };
    const sql = 'SELECT * FROM many';
    t.equal(await executes(sql), 0, 'the first time, nothing is known of it');
    t.equal(await executes(sql), 1);
    t.equal(await executes(sql, { format: 'json strings' }), 1, 'whatever the format');
    t.equal(await executes(`${sql} `), 0, 'another text');
    await server.sql(`DELETE FROM many WHERE id = ${manyRows - 1}`, { database });
    t.equal(await executes(sql), 1, 'it has had fewer rows this time');
    t.equal(await executes(sql), 0, 'so it is forgotten');

    await server.sql(`INSERT INTO many VALUES (${manyRows}, 1, '00:00:01')`, { database });
    const computed = 'SELECT id, ADDTIME(t, 1) FROM many';
    await peer.run(computed);
    const before = await counter.of('prepare');
    await peer.run(computed);
    t.equal(await counter.of('prepare'), before, 'nothing is prepared in vain');

    await peer.run(sql);
    await server.sql(
      'RENAME TABLE many TO under_many; CREATE VIEW many AS SELECT id, ADDTIME(t, a) AS t FROM under_many',
      {
        database,
      },
    );
    t.equal(await executes(sql), 0, 'the table has become a view with an expression');
    t.equal((await peer.run(sql)).rows, manyRows);
  });

  t.test(`${server.kind}: the same statement gives the same answer in both protocols`, async (t) => {
    const { peer, counter } = await openTables(t, server);
    const seed = seedOf(t);
    const count = figure(1_500, 100_000);
    const executesBefore = await counter.of('execute');
    let succeeded = 0;
    const differing: string[] = [];
    for (let number = 0; number < count && differing.length < 10; number++) {
      const sql = randomStatement(generator(seed, number), server.kind);
      const format = number % 3 === 0 ? 'csv' : 'json';
      const first = await peer.run(sql, { format });
      if (first.end?.ok) succeeded++;
      for (const expectsMany of number % 20 === 0 ? [true, false, true, true] : [true]) {
        const again = await peer.run(sql, { format, expectsMany });
        if (JSON.stringify(seen(again)) === JSON.stringify(seen(first))) continue;
        differing.push(`${sql}\n${JSON.stringify(seen(first))}\n${JSON.stringify(seen(again))}`);
        break;
      }
    }
    t.same(differing, []);
    const executes = (await counter.of('execute')) - executesBefore;
    measured(t, `${count} statements, of which ${succeeded} succeeded; ${executes} runs in binary`);
    t.ok(succeeded > count / 3, `${succeeded} of ${count} succeeded`);
    t.ok(executes > count / 10, `${executes} runs in binary`);
  });
}
