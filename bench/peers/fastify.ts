/**
 * What a good engineer would write in an afternoon: Fastify in front of a mysql2 pool, `POST /v1/query` with `{ "sql" }`, the
 * whole result in one answer through JSON.stringify. Numbers that a double cannot hold come as strings. A client that
 * wants pages asks by LIMIT and OFFSET in its SQL.
 */
import fastify from 'fastify';
import mysql from 'mysql2/promise';

const pool = mysql.createPool({
  uri: process.argv[2] as string,
  connectionLimit: 64,
  rowsAsArray: true,
  dateStrings: true,
  supportBigNumbers: true,
});

const app = fastify();

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
