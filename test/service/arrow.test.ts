import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { gunzipSync } from 'node:zlib';
import polars from 'nodejs-polars';
import t, { type Test } from 'tap';
import { canonicalCell, difference, type RowText, readArrow, rowsOfPages } from '../support/arrow-cells.ts';
import { parseCsv } from '../support/csv.ts';
import { figure, isLong } from '../support/form.ts';
import { holdStatement } from '../support/held-statement.ts';
import { seeded } from '../support/random.ts';
import { type DatabaseServer, sharedServers } from '../support/servers.ts';
import { query, type SluiceProcess, startSluice } from '../support/sluice.ts';
import { createDatesTable, createNumbersTable, createTypedTable, type TypedColumn } from '../support/typed-tables.ts';
import { checkFile, digestOf, file, keep, stream, type WholeAnswer } from '../support/whole-answers.ts';

const streamType = 'application/vnd.apache.arrow.stream';
const fileType = 'application/vnd.apache.arrow.file';
const rowsCount = figure(60_000, 2_000_000);

/** Both servers send this in another form by the binary protocol, so that a statement with it is read as text. */
const forcesText = 'SEC_TO_TIME(0.5)';

for (const server of await sharedServers()) {
  t.test(server.kind, async (t) => {
    const schema = `arrow_${randomBytes(4).toString('hex')}`;
    await server.sql(`CREATE DATABASE ${schema} CHARACTER SET utf8mb4`);
    t.teardown(() => server.sql(`DROP DATABASE ${schema}`));
    const columns = await createTypedTable(server, schema, seeded(t), figure(300, 5_000));
    await createNumbersTable(server, schema, rowsCount);
    await createDatesTable(server, schema);
    const sluice = await startSluice(['--mysql_url', server.url]);
    t.teardown(() => sluice.kill());
    const sql = `SELECT * FROM ${schema}.typed ORDER BY id`;
    const pages = await query(sluice.url, sql);
    const expected = rowsOfPages(pages);
    const { fields } = pages.last.schema;
    const names = fields.map(({ name }) => name);

    await t.test('a stream has every value of every type', async (t) => {
      for (const headers of [{}, { accept: streamType }] as Record<string, string>[]) {
        const answer = await stream(sluice, sql, headers['accept'] === undefined ? '?format=arrow' : '', headers);
        checkStream(t, answer, expected, names);
        checkColumns(t, answer.bytes, columns);
      }
      const zipped = await stream(sluice, sql, '?format=arrow', { 'accept-encoding': 'gzip' });
      t.equal(zipped.headers['content-encoding'], 'gzip');
      checkStream(t, { ...zipped, bytes: gunzipSync(zipped.bytes) }, expected, names);
    });

    await t.test('a file has every value of every type', async (t) => {
      const { result_uri } = await keep(sluice, sql);
      const { status, headers, bytes } = await file(sluice, `${result_uri}.arrow`);
      t.equal(status, 200, bytes.toString().slice(0, 300));
      t.equal(headers['content-type'], fileType);
      t.equal(bytes.toString('latin1', 0, 6), 'ARROW1');
      t.equal(bytes.toString('latin1', bytes.length - 6), 'ARROW1');
      t.equal(difference(readArrow(bytes).rows, expected, names), null);
      checkColumns(t, bytes, columns);

      const documents = new Set(fields.filter(({ data_type }) => data_type.type === 'Variant').map(({ name }) => name));
      // Polars 0.24 ends with an error for a column of arrow.json, and for decimals of more than 38 digits.
      const read = columns.filter(({ name, arrow }) => !documents.has(name) && !arrow.startsWith('Decimal256'));
      const known = ['id', ...read.map(({ name }) => name)];
      const places = known.map((name) => names.indexOf(name));
      const frame = polars.readIPC(bytes, { columns: known }).select(...known);
      const rows = readArrow(frame.writeIPC({ compression: 'uncompressed' })).rows;
      const picked = expected.map((row) => places.map((place) => row[place] as string | null));
      t.equal(difference(rows, picked, known), null, 'read by polars');
    });

    await t.test('rows that the database sends as text give the same', async (t) => {
      const asText = `SELECT typed.*, ${forcesText} AS span FROM ${schema}.typed ORDER BY id`;
      const answer = await stream(sluice, asText, '?format=arrow');
      const widened = expected.map((row) => [...row, '00:00:00.500000']);
      checkStream(t, answer, widened, [...names, 'span']);
      const kept = await file(sluice, `${(await keep(sluice, asText)).result_uri}.arrow`);
      t.equal(difference(readArrow(kept.bytes).rows, widened, [...names, 'span']), null);
    });

    await t.test('a part of the file, its head, and the same file again', async (t) => {
      const { result_uri } = await keep(sluice, sql);
      await checkFile(t, sluice, `${result_uri}.arrow`, fileType);
    });

    await t.test('a computed decimal has room for its values, though the database says it has not', async (t) => {
      const table = `${schema}.lowest`;
      await server.sql(`CREATE TABLE ${table} (v INT); INSERT INTO ${table} VALUES (-2147483648)`);
      const statement = `SELECT AVG(v) AS a, SUM(v) AS s, v / 3 AS d FROM ${table} GROUP BY v`;
      const { rows, columns } = readArrow((await stream(sluice, statement, '?format=arrow')).bytes);
      t.equal(difference(rows, rowsOfPages(await query(sluice.url, statement)), ['a', 's', 'd']), null);
      t.match(columns[0]?.type, /^Decimal128\(38, /);
    });

    await t.test('small results', async (t) => {
      const both = async (statement: string): Promise<ReturnType<typeof readArrow>> => {
        const streamed = await stream(sluice, statement, '?format=arrow');
        t.equal(streamed.status, 200, streamed.bytes.toString().slice(0, 300));
        t.ok(streamed.isComplete, statement);
        const result = readArrow(streamed.bytes);
        t.equal(streamed.trailers['sluice-rows'], String(result.rows.length));
        const { result_uri } = await keep(sluice, statement);
        const kept = await file(sluice, `${result_uri}.arrow`);
        t.equal(kept.status, 200, kept.bytes.toString().slice(0, 300));
        const { columns, rows } = readArrow(kept.bytes);
        t.strictSame([columns, rows], [result.columns, result.rows], `the file of ${statement}`);
        return result;
      };
      const none = await both(`SELECT * FROM ${schema}.typed WHERE id < 0`);
      t.equal(none.rows.length, 0);
      t.strictSame(
        none.columns.map(({ name, type }) => [name, type]),
        [['id', 'Int32'], ...columns.map(({ name, arrow }) => [name, arrow])],
      );
      t.match(await both('DO 1'), { columns: [], rows: [] }, 'no columns');
      t.strictSame((await both(`SELECT id FROM ${schema}.typed WHERE id = 7`)).rows, [['7']]);
      const twice = await both("SELECT 1 AS a, 'x' AS a, NULL AS n, 2 AS `é漢`");
      t.strictSame(twice.rows, [['1', 'x', null, '2']]);
      t.strictSame(
        twice.columns.map(({ name }) => name),
        ['a', 'a', 'n', 'é漢'],
      );
      t.equal(twice.columns[2]?.type, 'Null');
      const nulls = await both('SELECT NULL AS n UNION ALL SELECT NULL UNION ALL SELECT NULL');
      t.strictSame(nulls.rows, [[null], [null], [null]]);
      if (server.kind === 'mysql') {
        const documents = await both(`SELECT CAST('null' AS JSON) AS j UNION ALL SELECT NULL`);
        t.strictSame(documents.rows, [['null'], [null]], 'the null of JSON is no NULL');
      }
    });

    await t.test('rows that are larger than any buffer', async (t) => {
      const sizes = [0, 20_000_000, 1, 17_000_000, 300_000, 0];
      const selects = sizes.map((size, id) => `SELECT ${id} AS id, REPEAT('x', ${size}) AS text, ${id} * 2 AS twice`);
      const statement = selects.join(' UNION ALL ');
      const { result_uri } = await keep(sluice, statement);
      const answers = [await stream(sluice, statement, '?format=arrow'), await file(sluice, `${result_uri}.arrow`)];
      for (const { bytes } of answers) {
        const rows = readArrow(bytes).rows.map(([id, text, twice]) => [id, text?.length, twice]);
        t.strictSame(
          rows,
          sizes.map((size, id) => [`${id}`, size, `${2 * id}`]),
        );
      }
    });

    const isOnce = !isLong && server.kind === 'mysql' ? 'only in the long form' : false;
    await t.test('many rows', { skip: isOnce }, async (t) => {
      const many = `SELECT * FROM ${schema}.numbers ORDER BY id`;
      const { last } = await query(sluice.url, `${many} LIMIT 1`);
      const csv = await stream(sluice, many, '?format=csv&header=0');
      const types = last.schema.fields.map(({ data_type }) => data_type);
      const fromCsv = parseCsv(csv.bytes.toString()).map((row) =>
        row.map((cell, column) => canonicalCell(types[column] as (typeof types)[0], cell)),
      );
      t.equal(fromCsv.length, rowsCount);
      const digest = digestOf(JSON.stringify(fromCsv));
      const { result_uri } = await keep(sluice, many);
      const answers = [await stream(sluice, many, '?format=arrow'), await file(sluice, `${result_uri}.arrow`)];
      for (const { bytes } of answers) {
        const { rows, batches } = readArrow(bytes);
        t.ok(batches > 1, `${batches} batches`);
        t.equal(rows.length, rowsCount);
        t.equal(digestOf(JSON.stringify(rows)), digest);
      }
      t.equal(polars.readIPC(answers[1]?.bytes as Buffer).height, rowsCount);
    });

    await t.test('a batch is full by what it takes in Arrow, and not by what NULL takes in a packet', async (t) => {
      const nulls = Array.from({ length: 200 }, (_, column) => `CAST(NULL AS DECIMAL(65,30)) AS c${column}`);
      const answer = await stream(
        sluice,
        `SELECT ${nulls.join(', ')} FROM ${schema}.numbers LIMIT 2000`,
        '?format=arrow',
      );
      const { rows, batches } = readArrow(answer.bytes);
      t.equal(rows.length, 2_000);
      // Of 6,400 bytes each, and a batch has at most 896 KiB.
      t.ok(batches >= 14, `${batches} batches`);
    });

    await t.test('a statement that fails after its first rows cuts the body off', async (t) => {
      const held = await holdStatement(t, server);
      const cut = await stream(sluice, held.sql, '?format=arrow', {}, async (response) => {
        await once(response, 'readable');
        await held.kill();
      });
      t.equal(cut.status, 200);
      t.notOk(cut.isComplete, 'the client sees that the end is missing');
      t.equal(cut.trailers['sluice-rows'], undefined);
      const never = await stream(sluice, 'SELECT nothing_of_the_kind', '?format=arrow');
      t.equal(never.status, 400);
      t.match(JSON.parse(never.bytes.toString()), { error: { code: 1054 } });
    });

    await t.test('dates that Arrow does not have', (t) => zeroDates(t, server, sluice, schema));

    await t.test('what is not there is refused with a reason', async (t) => {
      const unknown = await stream(sluice, 'SELECT 1', '?format=xlsx');
      t.match([unknown.status, unknown.bytes.toString()], [406, /arrow/]);
      for (const value of ['', 'maybe', 'NULL']) {
        const refused = await stream(sluice, 'SELECT 1', `?format=arrow&zero_dates=${value}`);
        t.match([refused.status, refused.bytes.toString()], [400, /zero_dates/], value);
      }
    });
  });
}

function checkStream(t: Test, answer: WholeAnswer, expected: readonly RowText[], names: readonly string[]): void {
  t.equal(answer.status, 200, answer.bytes.toString('latin1').slice(0, 300));
  t.equal(answer.headers['content-type'], streamType);
  t.ok(answer.isComplete);
  t.equal(answer.trailers['sluice-rows'], String(expected.length));
  t.equal(difference(readArrow(answer.bytes).rows, expected, names), null);
}

function checkColumns(t: Test, bytes: Uint8Array, columns: readonly TypedColumn[]): void {
  const found = readArrow(bytes).columns.slice(1);
  t.strictSame(
    found.map(({ name, type }) => [name, type]),
    columns.map(({ name, arrow }) => [name, arrow]),
  );
  t.ok(
    found.every(({ nullable }) => nullable),
    'every column may have NULLs',
  );
  // MariaDB's JSON is text.
  const isMysql = columns.some(({ name }) => name === 'vector_');
  const documents = found.filter(({ metadata }) => metadata['ARROW:extension:name'] === 'arrow.json');
  t.strictSame(
    documents.map(({ name }) => name),
    isMysql ? ['json_'] : [],
  );
}

async function zeroDates(t: Test, server: DatabaseServer, sluice: SluiceProcess, schema: string): Promise<void> {
  const plain = `SELECT * FROM ${schema}.dates ORDER BY id`;
  const asText = `SELECT dates.*, ${forcesText} AS span FROM ${schema}.dates ORDER BY id`;
  const fields = (await query(sluice.url, plain)).last.schema.fields;
  const lines = (await server.sql(plain, { database: schema })).split('\n').map((line) => line.split('\t'));
  const valid = new Set(['0', '1']);
  for (const statement of [plain, asText]) {
    const { result_uri } = await keep(sluice, statement);
    const ways = [
      (parameters: string) => stream(sluice, statement, `?format=arrow${parameters}`),
      (parameters: string) => file(sluice, `${result_uri}.arrow?${parameters.slice(1)}`),
    ];
    for (const ask of ways) {
      for (const parameters of ['', '&zero_dates=fail']) {
        const failed = await ask(parameters);
        t.equal(failed.status, 400, parameters);
        t.match(failed.bytes.toString(), /0000-00-00.*has no form in Arrow/s);
      }
      const width = fields.length;
      const nulls = readArrow((await ask('&zero_dates=null')).bytes);
      const withNulls = lines.map(([id = '', ...cells]) => [
        id,
        ...cells.map((cell, column) =>
          valid.has(id) ? canonicalCell(fields[column + 1]?.data_type as { type: string }, cell) : null,
        ),
      ]);
      t.strictSame(
        nulls.rows.map((row) => row.slice(0, width)),
        withNulls,
        'as NULL',
      );
      const texts = readArrow((await ask('&zero_dates=string')).bytes);
      t.strictSame(
        texts.rows.map((row) => row.slice(0, width)),
        lines,
        'as the database prints them',
      );
      t.ok(texts.columns.slice(1, width).every(({ type }) => type === 'Utf8'));
    }
  }
  const failed = await stream(sluice, plain, '?format=arrow');
  t.match(JSON.parse(failed.bytes.toString()), { state: 'Failed', error: { code: 90012 } });
  // The first rows have been sent when the date is met.
  const late = `SELECT id, text, IF(id < ${rowsCount}, DATE '2024-01-01', (SELECT MIN(day) FROM ${schema}.dates)) AS day
    FROM ${schema}.numbers ORDER BY id`;
  const cut = await stream(sluice, late, '?format=arrow');
  t.equal(cut.status, 200);
  t.notOk(cut.isComplete, 'the body is cut off');
  const whole = await stream(sluice, late, '?format=arrow&zero_dates=null');
  t.equal(readArrow(whole.bytes).rows.at(-1)?.[2], null);
}
