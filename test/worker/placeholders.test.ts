import t from 'tap';
import type { Params } from '#src/wire/statement.js';
import { positional as positionalWithin } from '#src/worker/placeholders.js';
import { pick, seeded } from '../support/random.ts';

function positional(sql: string, params: Params): ReturnType<typeof positionalWithin> {
  return positionalWithin(sql, params, 65_535);
}

const params = { a: 1, b: 'two', _c3: null, A: true };

t.test('names outside of strings, quoted names and comments are placeholders', (t) => {
  for (const [sql, rewritten, ...values] of [
    ['SELECT :a', 'SELECT ?', 1],
    ['SELECT :a, :b,:a/:_c3+:A', 'SELECT ?, ?,?/?+?', 1, 'two', 1, null, true],
    [':a', '?', 1],
    ['(:a)', '(?)', 1],
    ["':a' :b ':a'", "':a' ? ':a'", 'two'],
    ["'it''s :a' :a", "'it''s :a' ?", 1],
    ["'it\\'s :a' :a", "'it\\'s :a' ?", 1],
    ["'\\\\' :a", "'\\\\' ?", 1],
    ['"x "":a" :a', '"x "":a" ?', 1],
    ['"x \\":a" :a', '"x \\":a" ?', 1],
    ['`x``:a\\` :a', '`x``:a\\` ?', 1],
    ['-- :a\n:a', '-- :a\n?', 1],
    ['--:a', '--?', 1],
    ['# :a\n:a # :b', '# :a\n? # :b', 1],
    ['/* :a */ :a /* :b', '/* :a */ ? /* :b', 1],
    ['/*! :a */ /*!80000 :b */ /*M! :a */', '/*! ? */ /*!80000 ? */ /*M! ? */', 1, 'two', 1],
    ['/*! /* :b */ :a */', '/*! /* :b */ ? */', 1],
    ['SET @x := :a, @y:=1', 'SET @x := ?, @y:=1', 1],
    ['SET @x :=:a', 'SET @x :=?', 1],
    ['x::a, ::: :a', 'x::a, ::: ?', 1],
    [": a :1 :é :'a' :", ": a :1 :é :'a' :"],
    ["':a", "':a"],
    ["'\\", "'\\"],
    ['":a\\"', '":a\\"'],
    ['`:a', '`:a'],
    ["TIME '10:a:b' :a", "TIME '10:a:b' ?", 1],
    ['', ''],
  ] as const) {
    t.strictSame(positional(sql, params), { sql: rewritten, values }, sql);
  }
  t.end();
});

t.test('a name without a value is an error, and a value without a name is not', (t) => {
  t.strictSame(positional('SELECT :a, :nothing', params), { missing: 'nothing' });
  t.strictSame(positional('SELECT :toString, :a', params), { missing: 'toString' });
  t.strictSame(positional('SELECT 1', params), { sql: 'SELECT 1', values: [] });
  t.strictSame(positional('SELECT :ab', { ...params, ab: 0 }), { sql: 'SELECT ?', values: [0] });
  t.end();
});

t.test('with an array of params the text of the statement is unchanged', (t) => {
  t.strictSame(positional("SELECT ?, ':a', :a", [1, null]), { sql: "SELECT ?, ':a', :a", values: [1, null] });
  t.end();
});

t.test('A7: a list expands to a placeholder for each of its values', async (t) => {
  for (const [sql, given, rewritten, ...values] of [
    ['a IN (?)', [[1, 2]], 'a IN (?, ?)', 1, 2],
    ['a IN (?) AND b = ?', [[1], 2], 'a IN (?) AND b = ?', 1, 2],
    ['? IN (?)', [null, ['x', null, true]], '? IN (?, ?, ?)', null, 'x', null, true],
    ['\'?\' "?" `?` /* ? */ -- ?\n? # ?', [[1, 2]], '\'?\' "?" `?` /* ? */ -- ?\n?, ? # ?', 1, 2],
    ["'\\'?' ? --?", [[1, 2], 3], "'\\'?' ?, ? --?", 1, 2, 3],
    ['/*! ? */', [[1, 2]], '/*! ?, ? */', 1, 2],
    ['a IN (:ids) OR b IN (:ids) OR :x', { ids: [1, 2], x: 3 }, 'a IN (?, ?) OR b IN (?, ?) OR ?', 1, 2, 1, 2, 3],
  ] as const) {
    t.strictSame(positional(sql, given), { sql: rewritten, values }, sql);
  }
  t.strictSame(positional('?, ?', [[1]]), { placeholders: 2 });
  t.strictSame(positional('?', [[1], 2]), { placeholders: 1 });
  t.strictSame(positional("'?'", [[1]]), { placeholders: 0 });
});

t.test('A7: lists expand to no more placeholders than allowed', async (t) => {
  const list = (length: number): number[] => Array.from({ length }, () => 1);
  t.match(positionalWithin('?', [list(10)], 10), { values: list(10) });
  t.strictSame(positionalWithin('?', [list(11)], 10), { tooMany: true });
  t.strictSame(positionalWithin(':a :a', { a: list(6) }, 10), { tooMany: true });
  t.match(positionalWithin(':a :a', { a: list(5) }, 10), { values: list(10) });
});

t.test('placeholders are found in any context, and the rest of the text is unchanged', (t) => {
  const random = seeded(t);
  const pieces = [
    "'x:a'",
    '":a"',
    '`:a`',
    "'\\':a'",
    '/* :a */',
    '-- :a\n',
    '# :a\n',
    ' ',
    ',',
    '(',
    ':=',
    '::',
    '@x',
    '1',
    ' - ',
  ];
  for (let round = 0; round < 20_000; round++) {
    let sql = '';
    let expected = '';
    const values: unknown[] = [];
    for (let piece = random(12); piece > 0; piece--) {
      if (random(3) > 0) {
        // Adjacent strings would be joined.
        const text = `${pick(random, pieces)} `;
        sql += text;
        expected += text;
        continue;
      }
      const name = pick(random, ['a', 'b', '_c3', 'A'] as const);
      sql += `:${name} `;
      expected += '? ';
      values.push(params[name]);
    }
    const found = positional(sql, params);
    if (!('sql' in found) || found.sql !== expected || JSON.stringify(found.values) !== JSON.stringify(values)) {
      t.fail(JSON.stringify({ sql, expected, found }));
    }
  }
  t.end();
});

t.test('any text is parsed in finite time', (t) => {
  const random = seeded(t);
  const characters = ['\\', "'", '"', '`', ':', '=', 'a', '-', ' ', '\n', '#', '/', '*', '!', '\0', '?'];
  for (let round = 0; round < 50_000; round++) {
    const sql = Array.from({ length: random(14) }, () => pick(random, characters)).join('');
    const found = positional(sql, { ...params, aa: 1, aaa: 1 });
    if (!('sql' in found)) continue;
    // There are as many placeholders as values.
    const count = (text: string): number => text.split('?').length - 1;
    if (count(found.sql) - count(sql) !== found.values.length) t.fail(JSON.stringify({ sql, found }));
  }
  const begin = performance.now();
  for (const piece of ["'", '\\', "'\\", '/*', '*/', ':', '-- ', '"', "''", ':a'])
    positional(piece.repeat(1_000_000), params);
  // Usually a quarter of a second. Quadratic code would take hours.
  t.ok(performance.now() - begin < 20_000, 'soon');
  t.end();
});
