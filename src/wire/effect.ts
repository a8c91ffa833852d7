import { wordAt } from './words.ts';

/**
 * What a statement may do to the data, as far as its first words tell: `read`: nothing; `whole`: all or nothing, since the
 * database takes a single statement back that fails; `parts`: what it has done before it failed may stay; `block`: the same,
 * and it may run statements that are yet to be parsed. A SELECT that calls a stored function is taken for a read, though the
 * function may write.
 */
export type Effect = 'read' | 'whole' | 'parts' | 'block';

const reads = wordsOf('SELECT WITH VALUES TABLE SHOW DESCRIBE DESC EXPLAIN HELP USE CHECKSUM');
/**
 * MySQL manual, "Atomic Data Definition Statement Support"; MariaDB manual, "Atomic DDL". DROP may name many. See `isPartial`
 * for those that MariaDB does in parts.
 */
const wholes = wordsOf(
  'INSERT UPDATE DELETE REPLACE LOAD DO SET CREATE ALTER TRUNCATE RENAME START BEGIN COMMIT ROLLBACK SAVEPOINT RELEASE ' +
    'LOCK UNLOCK',
);
const accounts = wordsOf('USER ROLE');
const droppedFirst = wordsOf('TABLE TEMPORARY SEQUENCE DATABASE SCHEMA USER ROLE');
const blocks = wordsOf('CALL EXECUTE IF CASE LOOP REPEAT WHILE FOR');

export function effectOf(sql: string): Effect {
  const first = wordAt(sql, 0);
  // Nobody knows what an executable comment holds; whatever else is no word is no statement.
  if (first === null) return /\/\*[!M]/.test(sql) ? 'block' : 'parts';
  const { word, end } = first;
  if (blocks.has(word)) return 'block';
  const second = word === 'BEGIN' || word === 'SET' ? wordAt(sql, end)?.word : undefined;
  // MariaDB: BEGIN NOT ATOMIC is a block of statements, and SET STATEMENT … FOR is whatever comes behind it.
  if ((word === 'BEGIN' && second === 'NOT') || (word === 'SET' && second === 'STATEMENT')) return 'block';
  // Common table expressions may come before UPDATE and DELETE, and what is selected may go to a file.
  if (word === 'WITH' && /\b(?:update|delete|insert|replace)\b/i.test(sql)) return 'whole';
  if ((word === 'SELECT' || word === 'WITH' || word === 'TABLE') && /\binto\b/i.test(sql)) return 'whole';
  // MySQL: EXPLAIN ANALYZE runs what it explains.
  if (word === 'EXPLAIN' && /\banalyze\b/i.test(sql)) return 'whole';
  if (reads.has(word)) return 'read';
  return wholes.has(word) && !isPartial(sql, word, end) ? 'whole' : 'parts';
}

/**
 * Whether MariaDB keeps a part of a statement that fails. CREATE OR REPLACE drops the old object before it makes the new one, and
 * a list of users or roles is worked through one by one (MariaDB manual, "CREATE TABLE", "CREATE USER", "RENAME USER").
 */
function isPartial(sql: string, word: string, end: number): boolean {
  if (word !== 'CREATE' && word !== 'ALTER' && word !== 'RENAME') return false;
  const second = wordAt(sql, end);
  if (second === null) return false;
  if (second.word !== 'OR') return accounts.has(second.word);
  const replace = wordAt(sql, second.end);
  const object = replace === null ? null : wordAt(sql, replace.end);
  return object !== null && droppedFirst.has(object.word);
}

function wordsOf(text: string): ReadonlySet<string> {
  return new Set(text.split(' '));
}
