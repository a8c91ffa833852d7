import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { asyncBufferFromUrl, type FileMetaData } from 'hyparquet';
import polars from 'nodejs-polars';
import t, { type Test } from 'tap';
import { type CellText, canonicalCell, difference, readArrow, rowsOfPages } from '../support/arrow-cells.ts';
import { parseCsv } from '../support/csv.ts';
import { figure, isLong } from '../support/form.ts';
import { DuckDb, readByHyparquet } from '../support/parquet-readers.ts';
import { seeded } from '../support/random.ts';
import { sharedServers } from '../support/servers.ts';
import { type Field, query, type SluiceProcess, startSluice } from '../support/sluice.ts';
import { createDatesTable, createNumbersTable, createTypedTable } from '../support/typed-tables.ts';
import { authorization, checkFile, digestOf, file, keep, stream } from '../support/whole-answers.ts';

const contentType = 'application/vnd.apache.parquet';
/** A row group has 131,072 at most. */
const rowsCount = figure(140_000, 2_000_000);

/** Both servers send this in another form by the binary protocol, so that a statement with it is read as text. */
const forcesText = 'SEC_TO_TIME(0.5)';

for (const server of await sharedServers()) {
  t.test(server.kind, async (t) => {
    const schema = `parquet_${randomBytes(4).toString('hex')}`;
    await server.sql(`CREATE DATABASE ${schema} CHARACTER SET utf8mb4`);
    t.teardown(() => server.sql(`DROP DATABASE ${schema}`));
    const folder = mkdtempSync(join(tmpdir(), 'parquet-'));
    t.teardown(() => rmSync(folder, { recursive: true, force: true }));
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

    await t.test('hyparquet reads every value of every type, by ranges from the URL', async (t) => {
      const { result_uri } = await keep(sluice, sql);
      const { metadata, rows } = await readFromUrl(sluice, `${result_uri}.parquet`, fields);
      t.equal(difference(rows, expected, names), null);
      checkSchema(t, metadata, fields);
    });

    await t.test('rows that the database sends as text give the same', async (t) => {
      const asText = `SELECT typed.*, ${forcesText} AS span FROM ${schema}.typed ORDER BY id`;
      const { result_uri } = await keep(sluice, asText);
      const widened = [...fields, { data_type: { type: 'Time' } } as Field];
      const { rows } = await readFromUrl(sluice, `${result_uri}.parquet`, widened);
      const wider = expected.map((row) => [...row, '00:00:00.500000']);
      t.equal(difference(rows, wider, [...names, 'span']), null);
    });

    // DuckDB's reader of URLs, httpfs, is an extension that it would have to download.
    await t.test('DuckDB reads every value of every type, and finds rows by their values', async (t) => {
      const { result_uri } = await keep(sluice, sql);
      const path = join(folder, 'typed.parquet');
      writeFileSync(path, (await file(sluice, `${result_uri}.parquet`)).bytes);
      const duck = await DuckDb.open(path);
      t.teardown(() => duck.close());
      const { types, rows } = await duck.rows(fields);
      // It has no decimals of more than 38 digits.
      const isWide = fields.map(({ data_type }) => (data_type.precision ?? 0) > 38);
      t.strictSame(
        types.map((type) => type === 'DOUBLE'),
        fields.map(({ data_type }, column) => data_type.type === 'Float64' || isWide[column]),
      );
      const known = expected.map((row) => row.map((cell, column) => (isWide[column] ? null : cell)));
      t.equal(difference(rows, known, names), null);
      // What it looks for is compared with the least and the largest value of each part of the file.
      for (const [condition, here = condition] of [
        ['BIGINT_u > 9223372036854775808'],
        ['BIGINT_s < -9000000000000000000'],
        ['INT_u = 4294967295'],
        ['double_ = 0'],
        ['float_ < -1e38'],
        ['decimal_38_10 < 0'],
        ['decimal_9_4 > 99999'],
        ["date_ < '0002-01-01'"],
        ["datetime_6 > '9999-01-01'"],
        ["time_0 < '00:00:00'", 'time_0 < 0'],
        ["varchar_ = 'plain'"],
        ["blob_ = x'deadbeef'", "blob_ = from_hex('deadbeef')"],
      ] as [string, string?][]) {
        const there = await server.sql(`SELECT COUNT(*) FROM ${schema}.typed WHERE ${condition}`);
        const [[count] = []] = await duck.ask(`SELECT COUNT(*)::VARCHAR FROM FILE WHERE ${here}`);
        t.ok(Number(there) > 0, condition);
        t.equal(count, there, condition);
      }
    });

    await t.test('polars reads every value of every type', async (t) => {
      const { result_uri } = await keep(sluice, sql);
      const { bytes } = await file(sluice, `${result_uri}.parquet`);
      // Polars 0.24 ends with an error for decimals of more than 38 digits.
      const read = columns.filter(({ arrow }) => !arrow.startsWith('Decimal256'));
      const known = ['id', ...read.map(({ name }) => name)];
      const places = known.map((name) => names.indexOf(name));
      const frame = polars.readParquet(bytes, { columns: known }).select(...known);
      const found = readArrow(frame.writeIPC({ compression: 'uncompressed' }));
      const picked = expected.map((row) => places.map((place) => row[place] as CellText));
      t.equal(difference(found.rows, picked, known), null);
      // The file says what is no type of Parquet.
      t.strictSame(
        found.columns.filter(({ type }) => type.startsWith('Duration')).map(({ name }) => name),
        known.filter((name) => /^time_\d$/.test(name)),
      );
    });

    const isOnce = !isLong && server.kind === 'mysql' ? 'only in the long form' : false;
    await t.test('many rows', { skip: isOnce }, async (t) => {
      const many = `SELECT * FROM ${schema}.numbers ORDER BY id`;
      const { fields: theirs } = (await query(sluice.url, `${many} LIMIT 1`)).last.schema;
      const csv = await stream(sluice, many, '?format=csv&header=0');
      const fromCsv = parseCsv(csv.bytes.toString()).map((row) =>
        row.map((cell, column) => canonicalCell((theirs[column] as Field).data_type, cell)),
      );
      const digest = digestOf(JSON.stringify(fromCsv));
      const { result_uri } = await keep(sluice, many);
      const { metadata, rows } = await readFromUrl(sluice, `${result_uri}.parquet`, theirs);
      t.equal(metadata.num_rows, BigInt(rowsCount));
      t.ok(metadata.row_groups.length > 1, `${metadata.row_groups.length} row groups`);
      t.equal(rows.length, rowsCount);
      t.equal(digestOf(JSON.stringify(rows)), digest);

      const path = join(folder, 'numbers.parquet');
      writeFileSync(path, (await file(sluice, `${result_uri}.parquet`)).bytes);
      const duck = await DuckDb.open(path);
      t.teardown(() => duck.close());
      t.equal(digestOf(JSON.stringify((await duck.rows(theirs)).rows)), digest);
      const [from, to] = [rowsCount - 5_001, rowsCount - 4_992];
      const found = await duck.ask(
        `SELECT COUNT(*)::INT, MIN(id), MAX(id) FROM FILE WHERE id BETWEEN ${from} AND ${to}`,
      );
      t.strictSame(found, [[10, from, to]]);
    });

    await t.test('small results, and columns that have one name', async (t) => {
      const rowsOf = async (statement: string): Promise<unknown> => {
        const { fields } = (await query(sluice.url, statement)).last.schema;
        const { result_uri } = await keep(sluice, statement);
        return (await readFromUrl(sluice, `${result_uri}.parquet`, fields)).rows;
      };
      t.strictSame(await rowsOf(`SELECT * FROM ${schema}.typed WHERE id < 0`), []);
      t.strictSame(await rowsOf(`SELECT id FROM ${schema}.typed WHERE id = 7`), [['7']]);
      t.strictSame(await rowsOf("SELECT 1 AS a, '' AS b, NULL AS n, 2 AS `é漢`"), [['1', '', null, '2']]);
      t.strictSame(await rowsOf('SELECT NULL AS n UNION ALL SELECT NULL'), [[null], [null]]);
      const twice = await keep(sluice, 'SELECT 1 AS a, 2 AS a, 3 AS b');
      const refused = await file(sluice, `${twice.result_uri}.parquet`);
      t.match([refused.status, refused.bytes.toString()], [400, /the name "a"/]);
      t.equal((await file(sluice, `${twice.result_uri}.arrow`)).status, 200);
      const none = await keep(sluice, 'DO 1');
      t.equal((await file(sluice, `${none.result_uri}.parquet`)).status, 400, 'no columns');
    });

    await t.test('rows that are larger than any buffer', async (t) => {
      const sizes = [0, 20_000_000, 1, 17_000_000, 300_000, 0];
      const selects = sizes.map((size, id) => `SELECT ${id} AS id, REPEAT('x', ${size}) AS text, ${id} * 2 AS twice`);
      const { result_uri, schema: described } = await keep(sluice, selects.join(' UNION ALL '));
      const { rows } = await readFromUrl(sluice, `${result_uri}.parquet`, described.fields);
      t.strictSame(
        rows.map(([id, text, twice]) => [id, text?.length, twice]),
        sizes.map((size, id) => [`${id}`, size, `${2 * id}`]),
      );
    });

    await t.test('dates that Parquet does not have', async (t) => {
      const statement = `SELECT * FROM ${schema}.dates ORDER BY id`;
      const { result_uri, schema: described } = await keep(sluice, statement);
      const lines = (await server.sql(statement, { database: schema })).split('\n').map((line) => line.split('\t'));
      for (const parameters of ['', '?zero_dates=fail']) {
        const failed = await file(sluice, `${result_uri}.parquet${parameters}`);
        t.equal(failed.status, 400);
        t.match(failed.bytes.toString(), /0000-00-00.*has no form/s);
      }
      // One of them behind the first row group, as what has been written by then looks like a whole file.
      const late = `SELECT n.*, d.day FROM ${schema}.numbers n JOIN ${schema}.dates d ON d.id = IF(n.id = ${rowsCount - 100}, 2, 0)`;
      const failed = await file(sluice, `${(await keep(sluice, `${late} ORDER BY n.id`)).result_uri}.parquet`);
      t.match([failed.status, failed.bytes.toString('latin1', 0, 200)], [400, /0000-00-00.*has no form/s]);

      const nulls = await readFromUrl(sluice, `${result_uri}.parquet?zero_dates=null`, described.fields);
      t.strictSame(
        nulls.rows,
        lines.map(([id = '', ...cells]) => [
          id,
          ...cells.map((cell, column) =>
            id < '2' ? canonicalCell((described.fields[column + 1] as Field).data_type, cell) : null,
          ),
        ]),
      );
      const asStrings = described.fields.map((field) => ({ ...field, data_type: { type: 'String' } }));
      const strings = await readFromUrl(sluice, `${result_uri}.parquet?zero_dates=string`, asStrings);
      t.strictSame(strings.rows, lines);
    });

    await t.test('a part of the file, its head, and the same file again', async (t) => {
      const { result_uri } = await keep(sluice, sql);
      await checkFile(t, sluice, `${result_uri}.parquet`, contentType);
      const { bytes } = await file(sluice, `${result_uri}.parquet`);
      t.equal(bytes.toString('latin1', 0, 4), 'PAR1');
      t.equal(bytes.toString('latin1', bytes.length - 4), 'PAR1');
    });

    await t.test('every file of a kept result is of one execution', async (t) => {
      const { result_uri, schema: described } = await keep(sluice, 'SELECT UUID() AS once');
      const [, uuid = ''] = (await file(sluice, `${result_uri}.csv`)).bytes.toString().split('\r\n');
      t.strictSame(readArrow((await file(sluice, `${result_uri}.arrow`)).bytes).rows, [[uuid]]);
      const { rows } = await readFromUrl(sluice, `${result_uri}.parquet`, described.fields);
      t.strictSame(rows, [[uuid]]);
    });
  });
}

async function readFromUrl(
  sluice: SluiceProcess,
  path: string,
  fields: readonly Field[],
): ReturnType<typeof readByHyparquet> {
  const requestInit = { headers: { authorization } };
  return readByHyparquet(await asyncBufferFromUrl({ url: sluice.url + path, requestInit }), fields);
}

/** Types as the format has them, so that a reader needs no Arrow to know them. */
function checkSchema(t: Test, metadata: FileMetaData, fields: readonly Field[]): void {
  const [, ...elements] = metadata.schema;
  t.strictSame(
    elements.map(({ name }) => name),
    fields.map(({ name }) => name),
  );
  for (const [
    column,
    { name, repetition_type, type, converted_type, logical_type, precision, scale },
  ] of elements.entries()) {
    t.equal(repetition_type, 'OPTIONAL', name);
    const wanted = (fields[column] as Field).data_type;
    switch (wanted.type) {
      case 'UInt8':
      case 'UInt16':
      case 'UInt32':
      case 'UInt64':
        t.match(logical_type, { type: 'INTEGER', bitWidth: Number(wanted.type.slice(4)), isSigned: false }, name);
        break;
      case 'Decimal':
        t.equal(converted_type, 'DECIMAL', name);
        t.strictSame([precision, scale], [(wanted.precision ?? 0) > 38 ? 76 : wanted.precision, wanted.scale], name);
        break;
      case 'Timestamp':
        t.match(logical_type, { type: 'TIMESTAMP', isAdjustedToUTC: false, unit: 'MICROS' }, name);
        break;
      case 'Time':
        t.equal(type, 'INT64', name);
        break;
      case 'String':
        t.equal(logical_type?.type ?? converted_type, 'STRING', name);
        break;
      case 'Binary':
      case 'Geometry':
      case 'Vector':
        t.strictSame([type, converted_type], ['BYTE_ARRAY', undefined], name);
        break;
    }
  }
}
