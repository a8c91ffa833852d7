// One connection of the real driver with open cursors while other statements run. The driver takes the session of every answer
// that has one, so an answer about a cursor must not restore state that other statements have changed.

import type { Connection, RowIterator } from 'databend-driver';
import t, { type Test } from 'tap';
import { figure, testMsMax } from '../../support/form.ts';
import { generator, pick, type Random, seedOf } from '../../support/random.ts';
import { sharedServers } from '../../support/servers.ts';
import { cell, each, next, Stage, valuesOf } from './stage.ts';

t.setTimeout(testMsMax);

const copiedRows = figure(4_000, 60_000);
/** Splits the rows into several pages. */
const copiedPages = figure('&max_rows_per_page=1500', '');
/** Rows of a cursor, in pages of 100. */
const cursorRows = figure(1_000, 10_000);
const batchRows = figure(250, 500);
const commitRows = figure(1_000, 3_000);

for (const server of await sharedServers()) {
  t.test(`cursors on ${server.kind} ${server.version}`, async (t) => {
    const stage = await Stage.start(t, server, []);
    await server.sql(
      `CREATE TABLE digits (d INT PRIMARY KEY); INSERT INTO digits VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9);
      CREATE TABLE numbers (id INT PRIMARY KEY, v VARCHAR(40));
      INSERT INTO numbers SELECT n, CONCAT('row ', n) FROM (SELECT a.d + 10 * b.d + 100 * c.d + 1000 * d.d + 10000 * e.d AS n
      FROM digits a, digits b, digits c, digits d, digits e) AS t WHERE n < ${copiedRows}`,
      { database: stage.database },
    );
    await testCopy(t, stage);
    await testOneByOne(t, stage);
    await testAtRandom(t, stage);
  });
}

async function testCopy(t: Test, stage: Stage): Promise<void> {
  for (const [how, options, begin] of [
    ['BEGIN', '', 'BEGIN'],
    ['autocommit = 0', '', 'SET autocommit = 0'],
    ['autocommit = 0 from the start', '&autocommit=0', 'DO 0'],
    ['settings that the database normalises', '&foreign_key_checks=0&sql_mode=ansi_quotes', 'BEGIN'],
  ] as const) {
    await t.test(`A1: a copy by a cursor and transactions has every row (${how})`, async (t) => {
      const connection = await stage.connect(options + copiedPages);
      await stage.direct('DROP TABLE IF EXISTS copied; CREATE TABLE copied (id INT PRIMARY KEY, v VARCHAR(40))');
      const rows = await connection.queryIter('SELECT id, v FROM numbers ORDER BY id');
      let batch: string[] = [];
      let count = 0;
      await connection.exec(begin);
      for await (const [id, v] of each(rows)) {
        batch.push(`(${id}, '${v}')`);
        if (batch.length === batchRows) {
          await connection.exec(`INSERT INTO copied VALUES ${batch.join()}`);
          batch = [];
        }
        if (++count % commitRows !== 0) continue;
        await connection.exec('COMMIT');
        if (begin === 'BEGIN') await connection.exec(begin);
      }
      await connection.exec('COMMIT');
      t.equal(count, copiedRows);
      const checksum = 'COUNT(*), SUM(id), SUM(CRC32(v))';
      t.equal(
        await stage.direct(`SELECT ${checksum} FROM copied`),
        await stage.direct(`SELECT ${checksum} FROM numbers`),
      );
    });
  }
}

async function testOneByOne(t: Test, stage: Stage): Promise<void> {
  const { database } = stage;
  /** Opens a cursor and reads the first row of many pages. */
  const open = async (connection: Connection): Promise<RowIterator> => {
    const rows = await connection.queryIter(`SELECT id FROM numbers WHERE id < ${cursorRows} ORDER BY id`);
    t.strictSame(await next(rows), [0]);
    return rows;
  };
  /** Reads on until more pages have arrived. */
  const readOn = async (rows: RowIterator): Promise<void> => {
    for (let count = 0; count < 250; count++) await next(rows);
  };
  const drain = async (rows: RowIterator): Promise<void> => {
    let last: unknown;
    for await (const [id] of each(rows)) last = id;
    t.equal(last, cursorRows - 1);
  };

  for (const [what, read] of [
    ['read on', readOn],
    ['drained', drain],
  ] as const) {
    await t.test(`A1: a rollback leaves no row, though a cursor is ${what} in the transaction`, async (t) => {
      const connection = await stage.connect('&max_rows_per_page=100');
      await stage.direct('CREATE TABLE IF NOT EXISTS undone (id INT PRIMARY KEY)');
      const rows = await open(connection);
      await connection.exec('BEGIN');
      await connection.exec('INSERT INTO undone VALUES (1)');
      await read(rows);
      await connection.exec('INSERT INTO undone VALUES (2)');
      await connection.exec('ROLLBACK');
      t.equal(await stage.direct('SELECT COUNT(*) FROM undone'), '0');
    });

    await t.test(`A1: a user variable is kept, though a cursor is ${what}`, async (t) => {
      const connection = await stage.connect('&max_rows_per_page=100');
      const rows = await open(connection);
      await connection.exec('SET @a = 7');
      await read(rows);
      t.equal(Number(await cell(connection, 'SELECT @a')), 7);
    });

    await t.test(`A1: a commit does not end the session, though a cursor of the transaction is ${what}`, async (t) => {
      const connection = await stage.connect('&max_rows_per_page=100');
      await stage.direct('DROP TABLE IF EXISTS kept; CREATE TABLE kept (id INT PRIMARY KEY)');
      await connection.exec('BEGIN');
      const rows = await open(connection);
      await connection.exec('INSERT INTO kept VALUES (1)');
      await connection.exec('COMMIT');
      await read(rows);
      await connection.exec('INSERT INTO kept VALUES (2)');
      t.equal(await stage.direct('SELECT GROUP_CONCAT(id) FROM kept'), '1,2');
    });

    await t.test(`A1: USE, SET and a temporary table stay, though a cursor is ${what}`, async (t) => {
      const connection = await stage.connect('&max_rows_per_page=100');
      const rows = await open(connection);
      await connection.exec(`USE ${database}_b`);
      await connection.exec('SET SESSION group_concat_max_len = 4321');
      await connection.exec('CREATE TEMPORARY TABLE passing (v INT)');
      await connection.exec('INSERT INTO passing VALUES (1), (2)');
      await read(rows);
      t.strictSame(
        (await connection.queryRow('SELECT DATABASE(), @@group_concat_max_len, COUNT(*) FROM passing'))
          ?.values()
          .map(String),
        [`${database}_b`, '4321', '2'],
      );
    });
  }

  await t.test('A1: a slow statement that changes the session reports the change at its end', async (t) => {
    const connection = await stage.connect('&wait_time_secs=1');
    await connection.exec('SET @slow = 5 + SLEEP(1.5)');
    t.equal(Number(await cell(connection, 'SELECT @slow')), 5);
  });

  await t.test('A1: two concurrent statements, one of which ends the transaction', async (t) => {
    const connection = await stage.connect();
    await stage.direct('DROP TABLE IF EXISTS kept; CREATE TABLE kept (id INT PRIMARY KEY)');
    await connection.exec('BEGIN');
    await connection.exec('INSERT INTO kept VALUES (1)');
    const [, sum] = await Promise.all([connection.exec('COMMIT'), cell(connection, 'SELECT 1 + SLEEP(0.1)')]);
    t.equal(Number(sum), 1);
    t.equal(await stage.direct('SELECT COUNT(*) FROM kept'), '1');
    t.equal(Number(await cell(connection, 'SELECT COUNT(*) FROM kept')), 1);
  });
}

/** The expected state of a connection after the steps so far. */
interface Model {
  database: string;
  maxLen: number;
  variable: number | null;
  /** Committed rows, and the additional rows of the transaction; null: there is no transaction. */
  committed: number;
  pending: number | null;
  /** Temporary tables of this connection, with their rows at the last commit and now. */
  readonly temporary: Map<string, { committed: number; rows: number }>;
  readonly cursors: { readonly rows: RowIterator; readonly end: number; at: number }[];
}

const cursorsMax = 3;

async function testAtRandom(t: Test, stage: Stage): Promise<void> {
  const steps = figure(150, 10_000);
  await t.test(`A1: ${steps} random steps match a model`, async (t) => {
    const random = generator(seedOf(t));
    const connection = await stage.connect('&max_rows_per_page=100');
    const observer = await stage.connect();
    await connection.exec('CREATE TABLE ledger (id INT PRIMARY KEY AUTO_INCREMENT, v INT) ENGINE = InnoDB');
    const model: Model = {
      ...{ database: stage.database, maxLen: 1_024, variable: null, committed: 0, pending: null },
      ...{ temporary: new Map(), cursors: [] },
    };
    await connection.exec('SET SESSION group_concat_max_len = 1024');
    const trace: string[] = [];
    try {
      for (let step = 0; step < steps; step++) {
        trace.push(await takeStep(random, stage, connection, model));
        if (random(4) === 0) await compare(connection, model, stage);
        if (random(20) === 0) {
          const seen = Number(await cell(observer, 'SELECT COUNT(*) FROM ledger'));
          if (seen !== model.committed)
            throw new Error(`other connections see ${seen} rows instead of ${model.committed}`);
        }
      }
    } catch (error) {
      throw new Error(`${(error as Error).message} after: ${trace.slice(-30).join('; ')}`, { cause: error });
    }
    t.equal(trace.length, steps);
    for (const { rows } of model.cursors) rows.close();
  });
}

/** @returns a description of the step */
async function takeStep(random: Random, stage: Stage, connection: Connection, model: Model): Promise<string> {
  const { cursors, temporary } = model;
  const run = async (sql: string): Promise<string> => {
    await connection.exec(sql);
    return sql;
  };
  const ledger = `${stage.database}.ledger`;
  switch (random(14)) {
    case 0:
    case 1: {
      if (cursors.length >= cursorsMax) return closeCursor(random, model);
      const at = random(copiedRows);
      const end = random(2) === 0 ? copiedRows : Math.min(copiedRows, at + random(400));
      const sql = `SELECT id FROM ${stage.database}.numbers WHERE id >= ${at} AND id < ${end} ORDER BY id`;
      cursors.push({ rows: await connection.queryIter(sql), at, end });
      return sql;
    }
    case 2:
    case 3:
    case 4:
      // All cursors concurrently.
      await Promise.all(cursors.map((cursor) => readSome(cursor, random(260))));
      for (const [index, { at, end }] of [...cursors.entries()].reverse()) if (at > end) cursors.splice(index, 1);
      return `read from ${cursors.length}`;
    case 5:
      if (model.pending !== null) return 'none';
      model.pending = 0;
      for (const table of temporary.values()) table.committed = table.rows;
      return run(pick(random, ['BEGIN', 'START TRANSACTION']));
    case 6:
    case 7: {
      const rows = 1 + random(3);
      await run(`INSERT INTO ${ledger} (v) VALUES ${Array.from({ length: rows }, () => '(1)').join()}`);
      if (model.pending === null) model.committed += rows;
      else model.pending += rows;
      return `insert ${rows}`;
    }
    case 8: {
      const sql = pick(random, ['COMMIT', 'ROLLBACK']);
      await run(sql);
      if (sql === 'COMMIT') model.committed += model.pending ?? 0;
      for (const table of temporary.values()) {
        if (sql === 'ROLLBACK' && model.pending !== null) table.rows = table.committed;
        table.committed = table.rows;
      }
      model.pending = null;
      return sql;
    }
    case 9:
      model.database = pick(random, [stage.database, `${stage.database}_b`]);
      return run(`USE ${model.database}`);
    case 10:
      if (random(2) === 0) {
        model.maxLen = 1_000 + random(9_000);
        return run(`SET SESSION group_concat_max_len = ${model.maxLen}`);
      }
      // Most real connections have no user variable, and then fewer sessions are pinned.
      if (random(6) > 0 && model.variable === null) return 'none';
      model.variable = random(1_000);
      return run(`SET @v = ${model.variable}`);
    case 11: {
      const name = pick(random, ['one', 'two']);
      const full = `${stage.database}.${name}`;
      const table = temporary.get(name);
      if (table === undefined) {
        temporary.set(name, { committed: 0, rows: 0 });
        return run(`CREATE TEMPORARY TABLE ${full} (v INT) ENGINE = InnoDB`);
      }
      if (random(2) === 0) {
        temporary.delete(name);
        return run(`DROP TEMPORARY TABLE ${full}`);
      }
      table.rows++;
      if (model.pending === null) table.committed++;
      return run(`INSERT INTO ${full} VALUES (1)`);
    }
    case 12: {
      const sql = pick(random, [
        `SELECT * FROM ${ledger}_not`,
        'SELEC 1',
        `INSERT INTO ${ledger} (id) VALUES (NULL), ('x')`,
      ]);
      const error = await connection.exec(sql).then(String, String);
      if (!/\[(?:1146|1064|1366)\]/.test(error)) throw new Error(`${sql}: ${error}`);
      return sql;
    }
    default: {
      const [a, b] = await Promise.all([cell(connection, 'SELECT 1'), cell(connection, 'SELECT 2')]);
      if (a !== 1 || b !== 2) throw new Error(`two concurrent statements returned ${a} and ${b}`);
      return 'two at once';
    }
  }
}

function closeCursor(random: Random, { cursors }: Model): string {
  const [closed] = cursors.splice(random(cursors.length), 1);
  // A cursor that is not closed is left to garbage collection.
  if (random(2) === 0) closed?.rows.close();
  return 'close';
}

async function readSome(cursor: Model['cursors'][number], count: number): Promise<void> {
  for (let read = 0; read < count && cursor.at <= cursor.end; read++) {
    const values = await next(cursor.rows);
    const expected = cursor.at < cursor.end ? cursor.at : null;
    if ((values?.[0] ?? null) !== expected) throw new Error(`a cursor returned ${values?.[0]} instead of ${expected}`);
    cursor.at++;
  }
}

async function compare(connection: Connection, model: Model, stage: Stage): Promise<void> {
  const tables = [...model.temporary].sort();
  const counts = tables.map(([name]) => `, (SELECT COUNT(*) FROM ${stage.database}.${name})`).join('');
  const [found] = valuesOf(
    await connection.queryAll(
      `SELECT DATABASE(), @@group_concat_max_len, @v, (SELECT COUNT(*) FROM ${stage.database}.ledger)${counts}`,
    ),
  );
  const expected = [
    ...[model.database, model.maxLen, model.variable, model.committed + (model.pending ?? 0)],
    ...tables.map(([, { rows }]) => rows),
  ];
  if (found?.map(String).join() !== expected.map(String).join()) {
    throw new Error(`the connection has ${found?.map(String).join()} instead of ${expected.map(String).join()}`);
  }
}
