import { randomBytes } from 'node:crypto';
import t from 'tap';
import { figure, measured, testMsMax } from '../support/form.ts';
import { generator, seedOf } from '../support/random.ts';
import { createTables, randomStatement } from '../support/random-statements.ts';
import { sharedServers } from '../support/servers.ts';
import { get, query, type SluiceProcess, split, startSluice } from '../support/sluice.ts';
import { file, keep, stream } from '../support/whole-answers.ts';

/*
 * A statement has the same cells, to the byte, however its result is asked for. Streamed and kept results are sent by the
 * database in binary where they can be, and pages as text until a statement is known to return many rows.
 */

t.setTimeout(testMsMax);

const statementCount = figure(40, 20_000);

for (const server of await sharedServers()) {
  t.test(server.kind, async (t) => {
    const database = `same_${randomBytes(4).toString('hex')}`;
    await server.sql(`CREATE DATABASE ${database} CHARACTER SET utf8mb4`);
    t.teardown(() => server.sql(`DROP DATABASE ${database}`));
    await createTables(server, database);
    const sluice = await startSluice(['--mysql_url', server.url + database, '--kept_count_max', '100000']);
    t.teardown(() => sluice.kill());
    const seed = seedOf(t);
    let succeeded = 0;
    for (let number = 0; number < statementCount; number++) {
      const sql = randomStatement(generator(seed, number), server.kind);
      const pages = await cellsOfPages(sluice, sql);
      const csv = await textOf(sluice, sql);
      const kept = await cellsOfKept(sluice, sql);
      const [pagesAgain, csvAgain] = [await cellsOfPages(sluice, sql), await textOf(sluice, sql)];
      if (pages === null) {
        t.strictSame([csv, kept, pagesAgain, csvAgain], [null, null, null, null], `it fails in every way: ${sql}`);
        continue;
      }
      succeeded++;
      t.strictSame(kept, { json: pages, csv }, `kept: ${sql}`);
      t.equal(pagesAgain, pages, `again: ${sql}`);
      t.equal(csvAgain, csv, `again as CSV: ${sql}`);
    }
    measured(t, `${statementCount} statements, five times each; ${succeeded} succeeded`);
    t.ok(succeeded > statementCount / 3, `${succeeded} of ${statementCount} succeeded`);
  });
}

/** @returns the rows as they stand in the pages; null if the statement fails, as below */
async function cellsOfPages(sluice: SluiceProcess, sql: string): Promise<string | null> {
  const { last, pages } = await query(sluice.url, sql);
  if (last.state === 'Failed') return null;
  return pages.map(({ text }) => split(text).rowsText).join('');
}

async function textOf(sluice: SluiceProcess, sql: string): Promise<string | null> {
  const { status, isComplete, bytes } = await stream(sluice, sql, '?format=csv');
  return status === 200 && isComplete ? bytes.toString('latin1') : null;
}

async function cellsOfKept(sluice: SluiceProcess, sql: string): Promise<{ json: string; csv: string } | null> {
  const { result_uri, stats_uri, final_uri } = await keep(sluice, sql);
  if ((await get(sluice.url, stats_uri)).json.state === 'Failed') return null;
  const { text } = await get(sluice.url, `${result_uri}/rows?from=0&count=1000000`);
  const json = text.slice(text.indexOf(',"data":[') + ',"data":['.length, text.lastIndexOf('],"next_uri":'));
  const csv = (await file(sluice, `${result_uri}.csv`)).bytes.toString('latin1');
  await get(sluice.url, final_uri);
  return { json, csv };
}
