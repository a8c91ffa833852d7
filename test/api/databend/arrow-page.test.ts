import { tableFromIPC } from 'apache-arrow';
import t from 'tap';
import { arrowPage, isArrowPage, wantsArrow } from '#src/api/databend/arrow-page.js';
import { plainArrowColumnsMax } from '#src/formats/arrow/arrow.js';
import { EncodedText } from '#src/http/encoded-text.js';
import type { Page } from '#src/query/pages.js';
import type { Column } from '#src/wire/statement.js';

const accept = 'application/vnd.apache.arrow.stream';

t.test('who is sent Arrow', (t) => {
  t.ok(wantsArrow(accept, {}));
  t.ok(wantsArrow(`${accept}, application/json`, { settings: { time_zone: 'UTC' } }));
  t.ok(wantsArrow(accept, { settings: { time_zone: '+00:00' } }));
  t.notOk(wantsArrow(undefined, {}));
  t.notOk(wantsArrow('application/json', {}));
  t.notOk(wantsArrow(accept, { settings: { time_zone: 'Europe/Berlin' } }), 'timestamps in Arrow are UTC');
  t.notOk(wantsArrow(accept, { settings: { time_zone: '+02:00' } }));
  t.notOk(wantsArrow(accept, { settings: { format_null_as_str: '1' } }), 'NULL is a text');
  t.end();
});

function pageOf(columns: readonly Column[], count: number): Page {
  const rows = { pieces: [], count, bytes: 0, heldBytes: 0 };
  return { columns, rows } as unknown as Page;
}

t.test('a page is Arrow if it has rows, and not too many columns', (t) => {
  const column: Column = { name: 'a', type: { name: 'Int32' }, nullable: true };
  const columns = Array.from({ length: plainArrowColumnsMax }, () => column);
  t.ok(isArrowPage(pageOf(columns, 1)));
  t.notOk(isArrowPage(pageOf(columns, 0)));
  t.notOk(isArrowPage(pageOf([...columns, column], 1)));
  t.end();
});

t.test('the rest of the page is in the metadata of the schema', (t) => {
  const columns: Column[] = [
    { name: 'at', type: { name: 'Time', precision: 0 }, nullable: true },
    { name: 'document', type: { name: 'Variant' }, nullable: true },
    { name: 'day', type: { name: 'Date' }, nullable: false },
  ];
  const { body, headers } = arrowPage(pageOf(columns, 1), ['{"id":"é",', new EncodedText('"schema":[]'), '}']);
  const { schema } = tableFromIPC(Buffer.concat(body as Uint8Array[]));
  t.equal(schema.metadata.get('response_header'), '{"id":"é","schema":[]}');
  t.strictSame(schema.fields.map(String), ['at: Utf8', 'document: Utf8', 'day: Date32<DAY>']);
  t.equal(schema.fields[1]?.metadata.size, 0, 'clients do not know the extension type of JSON');
  t.equal(headers['Content-Type'], accept);
  t.end();
});
