import t from 'tap';
import { isExact, scanJson } from '#src/api/json-scan.js';

const paramsMax = 5;

/** The reason why a text is refused; null if it is not. */
function refusal(text: string, max = paramsMax): string | null {
  try {
    scanJson(Buffer.from(text), max);
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}

t.test('A7: a number is exact if the double prints the same value', async (t) => {
  for (const text of [
    ...['0', '-0', '0.0', '-0.0', '0e9', '1', '-1', '0.1', '1e3', '1E3', '1e+3', '1.50', '100.0', '5e-1', '-2.5e-3'],
    ...['9007199254740991', '-9007199254740991', '0.30000000000000004', '1.7976931348623157e308', '5e-324', '1e300'],
    ...['1000000000000000000000', '0.000001', '1e-7', '12300000000000000000000', '900719925474099.1e1'],
  ]) {
    t.ok(isExact(text), text);
  }
  for (const text of [
    ...[
      '0.12345678901234567890',
      '9007199254740992',
      '9007199254740993',
      '-9007199254740993',
      '1e400',
      '-1e400',
      '1e-400',
    ],
    ...['0.1000000000000000000001', '1.00000000000000001', '12345678901234567890', '18446744073709551615', '1e19'],
    ...['123456789012345678901234567890', '4.9e-324', '9007199254740993.0', '9007199254740993e0'],
  ]) {
    t.notOk(isExact(text), text);
  }
  t.ok(isExact(`1.${'0'.repeat(1_000_000)}`), 'at any length');
  t.notOk(isExact(`1.${'0'.repeat(1_000_000)}1`));
});

t.test('A7: only the numbers in params must be exact, including nested ones', async (t) => {
  for (const [text, place] of [
    ['{"params":[1,0.12345678901234567890]}', '"params[1]"'],
    ['{"params":[[1],{"a":[9007199254740993]}]}', '"params[1]"'],
    ['{"params":{"a":1,"b,":{"c":1e400}}}', '"params.b,"'],
    ['{"p\\u0061rams":[9007199254740993]}', '"p\\u0061rams'],
    ['{"a":{"params":1},"params":[9007199254740993]}', '"params[0]"'],
    ['{"params":[1],"params":[9007199254740993]}', '"params[0]"'],
  ] as const) {
    const reason = refusal(text);
    t.match(reason, /does not carry exactly; send it as a string$/, text);
    if (!place.includes('\\')) t.equal(reason?.startsWith(place), true, `${reason}`);
  }
  for (const text of [
    '{"params":["9007199254740993","1e400",1.5,1e3,-1]}',
    '{"sql":"9007199254740993","pagination":{"max":9007199254740993}}',
    '{"a":{"params":[9007199254740993]}}',
    '[{"params":[9007199254740993]}]',
    '{"params":[1],"more":[9007199254740993]}',
    '{"sql":"x \\" \\\\","params":["\\\\",1]}',
  ]) {
    t.equal(refusal(text), null, text);
  }
});

t.test('A7: 100 levels are accepted and 101 refused, in a param and in any other member', async (t) => {
  const within = (text: string) => refusal(text, 1_000);
  const nested = (levels: number, open = '[', close = ']') => `${open.repeat(levels)}1${close.repeat(levels)}`;
  for (const [open, close] of [
    ['[', ']'],
    ['{"a":', '}'],
  ] as const) {
    t.equal(within(`{"params":[1,${nested(100, open, close)}]}`), null);
    t.equal(within(`{"params":[1,${nested(101, open, close)}]}`), '"params[1]" is nested deeper than 100 levels');
    t.equal(within(`{"params":{"p":${nested(100, open, close)}}}`), null);
    t.equal(within(`{"params":{"p":${nested(101, open, close)}}}`), '"params.p" is nested deeper than 100 levels');
    t.equal(within(`{"session":${nested(100, open, close)}}`), null);
    t.equal(within(`{"session":${nested(101, open, close)}}`), '"session" is nested deeper than 100 levels');
  }
  t.equal(within(`{"params":[${'['.repeat(101)}`), '"params[0]" is nested deeper than 100 levels', 'not closed');
  t.equal(within('['.repeat(1_000)), 'the body is nested deeper than 100 levels');
});

t.test('B2: values in params are counted, and the scan stops at the first value beyond the limit', async (t) => {
  for (const values of [
    ['1', '2', '3', '4', '5'],
    ['"a"', 'null', 'true', '-1.5', '""'],
    ['[1,2]', '[3,4]', '5'],
    ['{"a":1,"b":2}', '3', '4', '5'],
    ['[]', '{}', '[]', '{}', '[]'],
  ]) {
    t.equal(refusal(`{"params":[${values}]}`), null, `${values}`);
    t.match(refusal(`{"params":[${values},[6]]}`), /"params" has more than 5 values.*--params_max/, `${values}`);
    const named = values.map((value, index) => `"p${index}":${value}`);
    t.equal(refusal(`{"params":{${named}}}`), null, `${named}`);
    t.match(refusal(`{"params":{${named},"more":[6]}}`), /more than 5 values/, `${named}`);
  }
  t.match(refusal('{"params":["1","2","3","4","5","6"]}'), /more than 5 values/);
  for (const endless of ['{"params":[', '{"params":[[', '{"params":{"a":[']) {
    for (const value of ['1,', '[],', '"",', 'null,', '{},']) {
      t.match(refusal(endless + value.repeat(8)), /more than 5 values/, endless + value);
    }
  }
  t.match(refusal(`{${'"a":1,'.repeat(10_001)}`), /the body has more than 10000 values beside those in "params"/);
  t.match(refusal(`[${'[],'.repeat(10_001)}`), /more than 10000 values/);
  t.equal(refusal(`{${'"a":1,'.repeat(9_990)}"params":[1,2,3,4,5]}`), null);
});

t.test('invalid JSON is left to the parser', async (t) => {
  for (const text of [
    '',
    '{',
    '"',
    '"\\',
    '}',
    ']]]]',
    ':',
    ',',
    '{"params":',
    '{"params":[-',
    '{"params":[1e3.5',
    'nul',
    '\0',
  ]) {
    t.equal(refusal(text), null, text);
  }
});
