/**
 * What a good engineer would write in an afternoon: Fastify in front of a mysql2 pool, `POST /v1/query` with `{ "sql" }`, the
 * whole result in one answer through JSON.stringify. Numbers that a double cannot hold come as strings. A client that
 * wants pages asks by LIMIT and OFFSET in its SQL. Arguments: the database's URI, and the gzip level if answers are to be
 * compressed for clients that ask for it.
 */
import compress from '@fastify/compress';
import fastify from 'fastify';
import mysql from 'mysql2/promise';

const [, , uri, gzipLevel] = process.argv;

const pool = mysql.createPool({
  uri: uri as string,
  connectionLimit: 64,
  rowsAsArray: true,
  dateStrings: true,
  supportBigNumbers: true,
});

const app = fastify();

if (gzipLevel !== undefined) {
  await app.register(compress, { encodings: ['gzip'], zlibOptions: { level: Number(gzipLevel) } });
}

app.post<{ Body: { sql: string } }>('/v1/query', async ({ body }) => {
  const [rows, fields] = await pool.query(body.sql);
  return {
    state: 'Succeeded',
    schema: fields?.map(({ name, type }) => ({ name, type })),
    data: rows,
  };
});

const address = await app.listen({ host: '127.0.0.1', port: 0 });
process.stdout.write(`listens on ${address}\n`);
