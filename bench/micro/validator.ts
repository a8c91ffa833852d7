import { validate } from '#src/api/native/query-request.validator.js';
import { parse as parseBody } from '#src/api/native/request.js';
import { requestLimits } from '../../test/support/request-limits.ts';
import { callNs, print } from './measure.ts';

const bodies = {
  'sql alone': { sql: 'SELECT 1' },
  'a new session': { sql: 'SELECT 1', session: { database: 'shop', max_idle_time: 60 } },
  'an old session': { sql: 'SELECT 1', session: { id: 'f3ad6200410abb2055324a2d1e0bfcb0' } },
  pagination: {
    sql: 'SELECT 1',
    pagination: { wait_time_secs: 5, max_rows_per_page: 1_000, max_rows_in_buffer: 100_000 },
  },
  'sql of 100 KB': { sql: `SELECT '${'x'.repeat(100_000)}'` },
};

export async function run(): Promise<void> {
  for (const [name, body] of Object.entries(bodies)) {
    const text = JSON.stringify(body);
    const bytes = Buffer.from(text);
    const parse = await callNs(() => parseBody(bytes, requestLimits));
    const json = await callNs(() => JSON.parse(text));
    const validator = await callNs(() => validate(body));
    const parts = `JSON.parse alone ${json.toFixed(0)} ns, validator alone ${validator.toFixed(0)} ns`;
    print(`validator, ${name}: ${parse.toFixed(0)} ns; ${parts}`);
  }
}
