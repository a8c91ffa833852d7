import t from 'tap';
import { findPlaceholders } from '#src/wire/placeholders.js';
import { pick, seeded } from '../support/random.ts';

const opaque =
  /(['"])(?:\\[^\0]|\\\0|(?!\1)[^\\])*(?:\1|\\?$)|`[^`]*(?:`|$)|(?:#|--(?=[\s\0]|$)).*(?:\n|$)|\/\*(?!M?!)[\s\S]*?(?:\*\/|$)/;
const named = new RegExp(`${opaque.source}|::+|:=|(:[A-Za-z_][A-Za-z0-9_]*)`, 'g');
const unnamed = new RegExp(`${opaque.source}|(\\?)`, 'g');

/** The same by a pattern, which is slower and overflows the stack on long texts. */
function byPattern(sql: string, areNamed: boolean): number[] {
  // A dot matches no line separators but the line feed here.
  const lines = sql.replace(/[\r\u2028]/g, '\t');
  return [...lines.matchAll(areNamed ? named : unnamed)].flatMap((match) =>
    match[2] === undefined ? [] : [match.index, match.index + match[2].length],
  );
}

t.test('placeholders are found where a pattern finds them, in texts of anything', (t) => {
  const random = seeded(t);
  const characters = [...'\\\'"`::?=aZ_19-- \n#/*!M\0\t\v\u00a0\u2028é', '/*', '*/', '-- ', "''", ':a', '::'];
  for (let round = 0; round < 200_000; round++) {
    const sql = Array.from({ length: random(16) }, () => pick(random, characters)).join('');
    for (const areNamed of [true, false]) {
      const found = findPlaceholders(sql, areNamed, 1000);
      if (`${found}` !== `${byPattern(sql, areNamed)}`) {
        t.strictSame(found, byPattern(sql, areNamed), JSON.stringify([sql, areNamed]));
        t.end();
        return;
      }
    }
  }
  t.end();
});

t.test('the search ends with one placeholder more than allowed', (t) => {
  t.equal(findPlaceholders('?'.repeat(100), false, 7).length / 2, 8);
  t.equal(findPlaceholders(':a '.repeat(100), true, 7).length / 2, 8);
  t.equal(findPlaceholders('?'.repeat(7), false, 7).length / 2, 7);
  t.end();
});
