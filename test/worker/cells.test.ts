import t from 'tap';
import { type CellKind, cellKind } from '#src/formats/cell-kind.js';
import { formats } from '#src/formats/index.js';
import type { TextFormatName } from '#src/wire/statement.js';
import { cellGrowthMax, cellOverheadMax, writeCell } from '#src/worker/cells.js';

/** Writes one cell into a target with exactly the space that the encoder reserves. */
function write(kind: CellKind, bytes: Uint8Array, cells: TextFormatName = 'json'): string {
  const room = bytes.length * cellGrowthMax + cellOverheadMax;
  const out = Buffer.alloc(room + 8, 0x7e);
  const end = writeCell(kind, out, 0, bytes, 0, bytes.length, formats[cells].layout.nullCell);
  if (end > room) throw new Error(`${end} bytes were written where there is room for ${room}`);
  return out.toString('utf8', 0, end);
}

const latin1 = (text: string): Buffer => Buffer.from(text, 'latin1');

t.test('every sequence of up to two bytes is decoded as the platform decodes it', (t) => {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  let wrong = 0;
  for (let first = 0; first < 256; first++) {
    for (let second = -1; second < 256; second++) {
      const bytes = Uint8Array.from(second < 0 ? [first] : [first, second]);
      if (write(cellKind.text, bytes) !== JSON.stringify(decoder.decode(bytes))) wrong++;
    }
  }
  t.equal(wrong, 0);
  t.end();
});

t.test('every lead byte with every kind of continuation, cut anywhere, is decoded as the platform decodes it', (t) => {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  // The bytes at the limits of the rules for a second byte, and some that end a sequence.
  const followers = [0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc2, 0xe2, 0xf0, 0xff];
  let wrong = 0;
  for (let lead = 0xc0; lead < 256; lead++) {
    for (const second of followers) {
      for (const third of followers) {
        for (const fourth of [-1, ...followers]) {
          const bytes = Uint8Array.from([lead, second, third, ...(fourth < 0 ? [] : [fourth, 0x41])]);
          if (write(cellKind.text, bytes) !== JSON.stringify(decoder.decode(bytes))) wrong++;
        }
      }
    }
  }
  t.equal(wrong, 0);
  t.end();
});

t.test('every Unicode character is kept', (t) => {
  let wrong = 0;
  for (let code = 0; code <= 0x10ffff; code += code < 0x3000 ? 1 : 97) {
    if (code >= 0xd800 && code <= 0xdfff) continue;
    const character = String.fromCodePoint(code);
    if (write(cellKind.text, Buffer.from(character)) !== JSON.stringify(character)) wrong++;
  }
  t.equal(wrong, 0);
  t.end();
});

t.test('a number keeps its digits and loses the zeros that JSON forbids', (t) => {
  for (const [printed, given] of [
    ['0', '0'],
    ['-0', '-0'],
    ['00', '0'],
    ['0000', '0'],
    ['000123', '123'],
    ['-000123', '-123'],
    ['0.5', '0.5'],
    ['000.5', '0.5'],
    ['00000001e20', '1e20'],
    ['18446744073709551615', '18446744073709551615'],
    ['-9223372036854775808', '-9223372036854775808'],
    ['4.9406564584124654e-324', '4.9406564584124654e-324'],
    ['1.7976931348623157e308', '1.7976931348623157e308'],
    ['inf', '"inf"'],
    ['-nan', '"-nan"'],
    ['', '""'],
    ['\u00001', '"\\u00001"'],
  ] as const) {
    t.equal(write(cellKind.number, latin1(printed)), given, JSON.stringify(printed));
  }
  t.end();
});

t.test('A2: a number that a server prints in a form that JSON forbids is written in a valid form', (t) => {
  for (const [printed, given] of [
    ['0.', '0'],
    ['-0.', '-0'],
    ['12.', '12'],
    ['.5', '0.5'],
    ['-.5', '-0.5'],
    ['+.5', '0.5'],
    ['+7', '7'],
    ['+007.50', '7.50'],
    ['007', '7'],
    ['1e+20', '1e+20'],
    ['1E20', '1E20'],
    ['1.e5', '1e5'],
    ['.5e-7', '0.5e-7'],
    ['0000000000-0', '-0'],
    ['00-1.5e3', '-1.5e3'],
    ['-00', '-0'],
  ] as const) {
    t.equal(write(cellKind.number, latin1(printed)), given, printed);
    t.equal(write(cellKind.quotedNumber, latin1(printed)), `"${given}"`, printed);
    JSON.parse(given);
  }
  for (const none of [
    '-',
    '+',
    '.',
    '-.',
    '1e',
    '1e+',
    'e5',
    '.e5',
    '1-2',
    '--1',
    '1..2',
    '1.2.3',
    '1e5.5',
    '+-1',
    '0-',
  ]) {
    t.equal(write(cellKind.number, latin1(none)), `"${none}"`, none);
    t.equal(write(cellKind.quotedNumber, latin1(none)), `"${none}"`, none);
  }
  t.end();
});

t.test('BIT values are numbers of up to 64 bits, from any number of bytes', (t) => {
  for (const [hex, given] of [
    ['', '0'],
    ['00', '0'],
    ['01', '1'],
    ['35', '53'],
    ['03ff', '1023'],
    ['1fffffffffffff', '9007199254740991'],
    ['20000000000001', '9007199254740993'],
    ['8000000000000000', '9223372036854775808'],
    ['ffffffffffffffff', '18446744073709551615'],
    ['0000000000000000', '0'],
  ] as const) {
    t.equal(write(cellKind.bits, Buffer.from(hex, 'hex')), given);
  }
  t.equal(write(cellKind.bitsOrDigits, latin1('18446744073709551615')), '18446744073709551615');
  t.equal(write(cellKind.bitsOrDigits, latin1('10')), '10');
  t.equal(write(cellKind.bitsOrDigits, latin1('\u0001')), '1');
  t.equal(write(cellKind.bitsOrDigits, latin1('1\u0001')), `${0x3101}`);
  t.equal(write(cellKind.bitsOrDigits, latin1('')), '0');
  t.end();
});

t.test('bytes are upper-case hex, and an invalid JSON document is text', (t) => {
  const every = Uint8Array.from({ length: 256 }, (_, byte) => byte);
  t.equal(write(cellKind.hex, every), `"${Buffer.from(every).toString('hex').toUpperCase()}"`);
  t.equal(write(cellKind.hex, new Uint8Array()), '""');
  t.equal(write(cellKind.json, Buffer.from('{"é": [1, 2.50]}')), '{"é": [1, 2.50]}');
  t.equal(write(cellKind.json, new Uint8Array()), '""');
  t.equal(write(cellKind.json, latin1('"\xe9"')), '"\\"\ufffd\\""');
  t.equal(write(cellKind.json, latin1('\u0000[\u0000]')), '"\\u0000[\\u0000]"');
  t.end();
});

t.test('quoted numbers and BIT values have the digits of unquoted ones', (t) => {
  for (const [printed, given] of [
    ['0', '"0"'],
    ['-0', '"-0"'],
    ['-000123', '"-123"'],
    ['0000', '"0"'],
    ['1e20', '"1e20"'],
    ['-9223372036854775808', '"-9223372036854775808"'],
    ['nan', '"nan"'],
    ['', '""'],
    ['1"', '"1\\""'],
  ] as const) {
    t.equal(write(cellKind.quotedNumber, latin1(printed)), given, JSON.stringify(printed));
  }
  t.equal(write(cellKind.quotedBits, Buffer.from('ffffffffffffffff', 'hex')), '"18446744073709551615"');
  t.equal(write(cellKind.quotedBits, new Uint8Array()), '"0"');
  t.equal(write(cellKind.quotedBitsOrDigits, latin1('0012')), '"12"');
  t.equal(write(cellKind.quotedBitsOrDigits, latin1('\u0001')), '"1"');
  t.end();
});

t.test('a date without a month or a day is NULL, in both spellings', (t) => {
  for (const [printed, date, timestamp] of [
    ['2024-01-02', '"2024-01-02"', '"2024-01-02"'],
    ['0000-01-01', '"0000-01-01"', '"0000-01-01"'],
    ['0000-00-00', null, null],
    ['2024-00-10', null, null],
    ['2024-10-00', null, null],
    ['2024-10-0', '"2024-10-0"', '"2024-10-0"'],
    ['2024-01-02 00:00:00', '"2024-01-02 00:00:00"', '"2024-01-02 00:00:00.000000"'],
    ['2024-01-02 03:04:05.1', '"2024-01-02 03:04:05.1"', '"2024-01-02 03:04:05.100000"'],
    ['2024-01-02 03:04:05.12345', '"2024-01-02 03:04:05.12345"', '"2024-01-02 03:04:05.123450"'],
    ['2024-01-02 03:04:05.123456', '"2024-01-02 03:04:05.123456"', '"2024-01-02 03:04:05.123456"'],
    ['0000-00-00 00:00:00.000', null, null],
    ['2024-00-01 00:00:00', null, null],
    ['', '""', '""'],
  ] as const) {
    t.equal(write(cellKind.date, latin1(printed)), date ?? 'null', printed);
    t.equal(write(cellKind.timestamp, latin1(printed)), timestamp ?? 'null', printed);
    t.equal(write(cellKind.timestamp, latin1(printed), 'json strings'), timestamp ?? 'null', printed);
    t.equal(write(cellKind.timestamp, latin1(printed), 'json strings, NULL too'), timestamp ?? '"NULL"', printed);
  }
  t.end();
});
