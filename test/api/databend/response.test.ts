import t from 'tap';
import { DatabendReplies, type DatabendServer } from '#src/api/databend/response.js';
import { SessionTokens } from '#src/api/databend/session.js';
import { EncodedText } from '#src/http/encoded-text.js';
import type { BodyParts } from '#src/http/reply.js';
import type { Page } from '#src/query/pages.js';
import { noRows } from '#src/query/ring.js';
import { running } from '#src/query/state.js';
import type { Column } from '#src/wire/statement.js';

const server: DatabendServer = {
  tokens: new SessionTokens(),
  resultTimeoutMs: 1_000,
  zones: new Set(),
  version: () => '11.4.0-MariaDB',
};
const none = { rows: 0, bytes: 0 };
const stats = {
  runningMs: 0,
  scan: { ...none, known: true, estimatedRows: null },
  write: none,
  result: none,
  spill: none,
  queue: null,
};
const query = { identity: { id: 'abc', sessionId: 'def', owner: 'ann' }, sessionState: null };
const session = { settings: {} };

function replies(sql: string): DatabendReplies {
  return new DatabendReplies(server, { user: 'ann', session, sql, readsFinalAlone: false, isArrow: false });
}

function pageOf(columns: readonly Column[]): Page {
  const pieces = [Buffer.from('["1"],["2"]'), Buffer.from('["3"]')];
  const rows = { ...noRows, pieces, count: 3 };
  return { number: 0, next: 1, rows, state: running, columns, stats };
}

function textOf(parts: BodyParts): string {
  const bytes = parts.map((part) => (part instanceof EncodedText ? part.bytes : Buffer.from(part as string)));
  return Buffer.concat(bytes).toString();
}

function columnsOf(count: number): Column[] {
  return Array.from({ length: count }, (_, number) => ({
    name: `"größe" 語 ${number}`,
    type: { name: 'Int32' },
    nullable: number % 2 === 0,
  }));
}

for (const count of [1, 1_000]) {
  t.test(`the schema of ${count} columns stands before the rows, in both forms`, async (t) => {
    const columns = columnsOf(count);
    for (const [sql, type] of [
      ['SELECT 1', ({ nullable }: Column) => (nullable ? 'Nullable(Int32)' : 'Int32')],
      ['SELECT 1 GROUP BY a WITH ROLLUP', () => 'Nullable(Int32)'],
    ] as const) {
      const text = textOf(replies(sql).page(query, pageOf(columns), true).body);
      const schema = JSON.stringify(columns.map((column) => ({ name: column.name, type: type(column) })));
      t.ok(text.includes(`"has_result_set":true,"schema":${schema},"data":[["1"],["2"],["3"]],"affect":null`), sql);
      t.doesNotThrow(() => JSON.parse(text));
    }
  });
}

t.test('a long schema is encoded once for all answers about a result', async (t) => {
  for (const sql of ['SELECT 1', 'SELECT 1 GROUP BY a WITH ROLLUP']) {
    const columns = columnsOf(1_000);
    const written = replies(sql);
    const encoded = (parts: BodyParts) => parts.find((part) => part instanceof EncodedText);
    const first = encoded(written.page(query, pageOf(columns), true).body);
    t.ok(first, sql);
    t.equal(encoded(written.page(query, { ...pageOf(columns), number: 1 }, false).body), first);
    t.equal(encoded(written.final(query, pageOf(columns)).reply.body), first);
  }
});
