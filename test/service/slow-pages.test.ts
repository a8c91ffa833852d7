import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { Agent as TlsAgent, request as tlsRequest } from 'node:https';
import { buffer } from 'node:stream/consumers';
import t from 'tap';
import { makeCertificate } from '../support/certificates.ts';
import { figure } from '../support/form.ts';
import { pick, seeded } from '../support/random.ts';
import { sharedServers } from '../support/servers.ts';
import { split, startSluice } from '../support/sluice.ts';

/*
 * The memory of a page is released when it is no longer the last page and all its answers have been sent. Until then,
 * an answer in transit has all its rows, even if its query is finished and other memory is reused.
 */

t.setTimeout(540_000);

const [server] = await sharedServers();
if (server === undefined) throw new Error('there is no server');

const results = figure(6, 12);
const readers = 4;
/** Results of 15 and 25 MB. A page is larger than the socket buffers of a connection. */
const rowsCount = figure(24_000, 40_000);
const pageRows = 8_000;
const letters = Array.from({ length: 26 }, (_, index) => String.fromCharCode(97 + index).repeat(600));
const authorization = `Basic ${Buffer.from('root:').toString('base64')}`;

for (const scheme of ['http', 'https'] as const) {
  t.test(`answers that are read slowly are complete, however far other readers are (${scheme})`, async (t) => {
    const random = seeded(t);
    const isTls = scheme === 'https';
    const files = isTls ? await makeCertificate(t) : null;
    const tls = files === null ? [] : ['--tls_cert', files.certFile, '--tls_key', files.keyFile];
    const sluice = await startSluice(['--mysql_url', server.url, ...tls]);
    t.teardown(() => sluice.stop());
    const agent = isTls ? new TlsAgent({ keepAlive: true, rejectUnauthorized: false }) : new Agent({ keepAlive: true });
    t.teardown(() => agent.destroy());

    /** An answer of which only the head has been read. */
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
          // The rows are compared as text, because parsing them takes more time than everything else.
          const { head, rowsText } = split(text);
          const { next_uri, id, final_uri } = head;
          const count = rowsText === '' ? 0 : rowsText.split('],[').length;
          const rows = Array.from({ length: count }, (_, index) => {
            const number = expected + index;
            return `[${number},"${letters[(number + result) % 26]}"]`;
          });
          if (rowsText === rows.join()) expected += count;
          else t.fail(`${count} rows from ${expected} on are wrong`);
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
          if (split(await textOf(one.incoming)).rowsText !== one.rowsText) t.fail(`${one.path} had different rows`);
        }
      }),
    );
    t.ok(slowAnswers > figure(0, results), `${slowAnswers} slow answers were read`);
    // The server logs an answer that it cuts short itself.
    t.notMatch(sluice.log(), /defect/);
  });
}
