import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { Agent as TlsAgent, request as tlsRequest } from 'node:https';
import { buffer } from 'node:stream/consumers';
import t from 'tap';
import { makeCertificate } from '../support/certificates.ts';
import { pick, seeded } from '../support/random.ts';
import { sharedServers } from '../support/servers.ts';
import { type QueryResponse, split, startSluice } from '../support/sluice.ts';

/*
 * The memory of a page is given back when it is no more the last one and all its answers have left. An answer that is
 * still on its way then has all its rows, whatever becomes of its query and of the memory beside it.
 */

t.setTimeout(540_000);

const [server] = await sharedServers();
if (server === undefined) throw new Error('there is no server');

const results = 12;
const readers = 4;
/** Some 25 MB; a page is more than what a connection holds on its way. */
const rowsCount = 40_000;
const pageRows = 8_000;
const authorization = `Basic ${Buffer.from('root:').toString('base64')}`;

for (const scheme of ['http', 'https'] as const) {
  t.test(`answers that are read slowly are whole, however far other readers are (${scheme})`, async (t) => {
    const random = seeded(t);
    const isTls = scheme === 'https';
    const files = isTls ? await makeCertificate(t) : null;
    const tls = files === null ? [] : ['--tls_cert', files.certFile, '--tls_key', files.keyFile];
    const sluice = await startSluice(['--mysql_url', server.url, ...tls]);
    t.teardown(() => sluice.stop());
    const agent = isTls ? new TlsAgent({ keepAlive: true, rejectUnauthorized: false }) : new Agent({ keepAlive: true });
    t.teardown(() => agent.destroy());

    /** An answer of which nothing but its head is read. */
    const ask = async (path: string, body?: object): Promise<IncomingMessage> => {
      const outgoing = (isTls ? tlsRequest : request)(sluice.url + path, {
        agent,
        method: body === undefined ? 'GET' : 'POST',
        headers: { authorization, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      });
      outgoing.end(body === undefined ? undefined : JSON.stringify(body));
      const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage];
      return incoming;
    };
    const textOf = async (incoming: IncomingMessage): Promise<string> => (await buffer(incoming)).toString();

    let slowAnswers = 0;
    await Promise.all(
      Array.from({ length: results }, async (_, result) => {
        const sql = `SELECT seq, REPEAT(CHAR(97 + (seq + ${result}) % 26 USING utf8mb4), 600) FROM mysql.seq_1_to_${rowsCount}`;
        const slow: { path: string; incoming: IncomingMessage; rowsText: string }[] = [];
        let incoming = await ask('/v1/query', { sql, pagination: { max_rows_per_page: pageRows } });
        let path: string | null = null;
        let expected = 1;
        for (;;) {
          const text = await textOf(incoming);
          const { data, next_uri, id, final_uri } = JSON.parse(text) as QueryResponse;
          const { rowsText } = split(text);
          const first = expected;
          for (const [number, letters] of data as [number, string][]) {
            const letter = String.fromCharCode(97 + ((expected + result) % 26));
            if (number === expected && letters === letter.repeat(600)) expected++;
          }
          if (expected !== first + data.length)
            t.fail(`of ${data.length} rows, ${expected - first} are as they should be`);
          const again: string = path ?? `/v1/query/${id}/page/0`;
          for (let reader = random(readers); reader > 0; reader--) {
            slow.push({ path: again, incoming: await ask(again), rowsText });
          }
          if (next_uri === null) {
            await textOf(await ask(final_uri));
            break;
          }
          path = next_uri;
          incoming = await ask(next_uri);
        }
        if (expected !== rowsCount + 1) t.fail(`${expected - 1} rows came`);
        while (slow.length > 0) {
          const one = pick(random, slow);
          slow.splice(slow.indexOf(one), 1);
          if (random(4) === 0) {
            one.incoming.destroy();
            continue;
          }
          slowAnswers++;
          if (split(await textOf(one.incoming)).rowsText !== one.rowsText) t.fail(`${one.path} came otherwise`);
        }
      }),
    );
    t.ok(slowAnswers > results, `${slowAnswers} slow answers were read`);
    // An answer that is cut short on our side is told in the log.
    t.notMatch(sluice.log(), /defect/);
  });
}
