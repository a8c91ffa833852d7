import t from 'tap';
import { heartbeatQueries } from '#src/api/databend/session-replies.js';
import { InvalidRequestError } from '#src/api/invalid-request.js';

const read = (text: string): readonly string[] => heartbeatQueries(Buffer.from(text));

t.test('a heartbeat lists queries by the nodes that run them', async (t) => {
  t.strictSame(read('{"node_to_queries":{"a":["1","2"],"b":[],"c":["3"]},"more":1}'), ['1', '2', '3']);
  for (const text of ['{}', '{"node_to_queries":null}', '{"node_to_queries":{}}']) t.strictSame(read(text), []);
});

t.test('an invalid heartbeat is refused with a reason that names the member', async (t) => {
  for (const [text, reason] of [
    ['[]', /the body must be a JSON object/],
    ['{"node_to_queries":[]}', /"node_to_queries" must be a JSON object or a null/],
    ['{"node_to_queries":{"a":"1"}}', /"node_to_queries\.a" must be an array/],
    ['{"node_to_queries":{"a":[1]}}', /"node_to_queries\.a\.0" must be a string/],
    ['{', /not JSON/],
  ] as const) {
    t.throws(() => read(text), { name: 'InvalidRequestError', message: reason }, text);
  }
  t.throws(() => read(''), InvalidRequestError);
});
