import t from 'tap';
import { saysNothing } from '#src/wire/sql-traits.js';
import { wordAt } from '#src/wire/words.js';
import { pick, seeded } from '../support/random.ts';

/** The same by patterns, which take several times as long for a text of many comments. */
const beforeWord = /[ \t\n\v\f\r(]+|#[^\n]*|--(?=[ \t\n\v\f\r]|$)[^\n]*|\/\*(?![!M])[\s\S]*?\*\//y;
const nothingToDo = /\s+|;|#[^\n]*|--(?=[\s\0]|$)[^\n]*|\/\*(?![!M])[\s\S]*?\*\//y;

function wordByPattern(sql: string, start: number): string | null {
  let at = start;
  for (beforeWord.lastIndex = at; beforeWord.test(sql); at = beforeWord.lastIndex);
  const word = /[\w$\u0080-\uffff]+/y;
  word.lastIndex = at;
  const found = word.exec(sql)?.[0];
  return found === undefined ? null : `${found.toUpperCase()} ${word.lastIndex}`;
}

function saysNothingByPattern(sql: string): boolean {
  for (let at = 0; at < sql.length; at = nothingToDo.lastIndex) {
    nothingToDo.lastIndex = at;
    if (!nothingToDo.test(sql)) return false;
  }
  return true;
}

t.test('B (attack): blanks and comments are passed over as the servers do it', async (t) => {
  const random = seeded(t);
  const parts = [
    ' ',
    '\n',
    '\t',
    '\v',
    '\u00a0',
    '\u2003',
    '\0',
    '#',
    '--',
    '-',
    '/*',
    '*/',
    '*',
    '/',
    '/**/',
    '/*!',
    '/*M',
    ';',
    '(',
    'a',
  ];
  for (let run = 0; run < 50_000; run++) {
    const sql = Array.from({ length: random(8) }, () => pick(random, parts)).join('');
    const start = random(3);
    const found = wordAt(sql, start);
    const word = found === null ? null : `${found.word} ${found.end}`;
    if (word !== wordByPattern(sql, start) || saysNothing(sql) !== saysNothingByPattern(sql)) {
      t.fail(`run ${run}: ${JSON.stringify(sql)} from ${start}`);
      return;
    }
  }
  t.pass('50,000 texts');
});
