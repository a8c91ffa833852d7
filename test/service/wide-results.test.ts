import t from 'tap';
import { sharedServers } from '../support/servers.ts';
import { type SluiceProcess, startSluice } from '../support/sluice.ts';

/*
 * Results with so many columns that their schema is sent as a part of its own, beside the text of the answer.
 */

t.setTimeout(300_000);

const rowsCount = 60;
const rowsPerPage = 25;
const names = Array.from({ length: 1_000 }, (_, number) => `"größe ${number}" ${'語'.repeat(30)}`);
const values = Array.from({ length: 1_000 }, (_, number) => `value ${number}`);
const select =
  `SELECT ${names.map((name, number) => `'value ${number}' AS \`${name}\``).join()} ` +
  `FROM (SELECT 1 FROM information_schema.COLUMNS LIMIT ${rowsCount}) a`;

interface Answer {
  readonly isGzip: boolean;
  readonly text: string;
  readonly json: {
    readonly id: string;
    readonly schema: { readonly fields: readonly object[] } | readonly object[];
    readonly data: readonly (readonly unknown[])[];
    readonly stats_uri: string;
    readonly final_uri: string;
    readonly next_uri: string | null;
  };
}

const dialects = [
  {
    name: 'native',
    headers: { 'user-agent': 'test' },
    sql: select,
    schema: {
      fields: names.map((name) => ({
        name,
        data_type: { type: 'String' },
        nullable: false,
        default_expr: null,
      })),
      metadata: {},
    },
  },
  {
    name: 'databend',
    headers: { 'user-agent': 'databend-client-go/1' },
    sql: select,
    schema: names.map((name) => ({ name, type: 'String' })),
  },
  {
    name: 'databend, where rollup makes all columns nullable',
    headers: { 'user-agent': 'databend-client-go/1' },
    sql: `${select} /* rollup */`,
    schema: names.map((name) => ({ name, type: 'Nullable(String)' })),
  },
];

for (const server of await sharedServers()) {
  for (const { name, headers, sql, schema } of dialects) {
    for (const encoding of ['identity', 'gzip']) {
      t.test(`every answer has all columns: ${name}, ${encoding}, on ${server.kind}`, async (t) => {
        const sluice = await startSluice(['--mysql_url', `${server.url}`, '--drain_secs', '0']);
        t.teardown(() => sluice.stop());
        const sent = { ...headers, 'accept-encoding': encoding };
        const pagination = { max_rows_per_page: rowsPerPage, wait_time_secs: 20 };
        const pages = [await ask(sluice, '/v1/query', sent, JSON.stringify({ sql, pagination }))];
        const first = (pages[0] as Answer).json;
        const again = await ask(sluice, `/v1/query/${first.id}/page/0`, sent);
        t.strictSame(again.json.data, first.data, 'the first page, asked for again');
        t.strictSame(again.json.schema, schema);
        for (let next = first.next_uri; next?.includes('/page/'); next = (pages.at(-1) as Answer).json.next_uri) {
          pages.push(await ask(sluice, next, sent));
          if (name !== 'native') continue;
          const stats = await ask(sluice, first.stats_uri, sent);
          t.strictSame(stats.json.schema, schema, `stats after page ${pages.length - 1}`);
        }
        for (const [number, page] of pages.entries()) t.strictSame(page.json.schema, schema, `page ${number}`);
        t.strictSame(
          pages.flatMap(({ json }) => json.data),
          Array.from({ length: rowsCount }, () => values),
        );
        t.equal((pages[0] as Answer).isGzip, encoding === 'gzip');
        const { text } = await ask(sluice, first.final_uri, sent);
        if (name === 'native') t.equal(text, '');
        else t.strictSame(JSON.parse(text).schema, schema, 'final');
      });
    }
  }
}

async function ask(sluice: SluiceProcess, path: string, more: object, body?: string): Promise<Answer> {
  const authorization = `Basic ${Buffer.from('root:').toString('base64')}`;
  const headers = { authorization, 'content-type': 'application/json', ...more };
  const reply = await fetch(
    `${sluice.url}${path}`,
    body === undefined ? { headers } : { method: 'POST', headers, body },
  );
  const text = await reply.text();
  if (reply.status !== 200) throw new Error(`${reply.status}: ${text}`);
  return {
    isGzip: reply.headers.get('content-encoding') === 'gzip',
    text,
    json: text === '' ? null : JSON.parse(text),
  };
}
