import { wordAt } from './words.ts';

/**
 * The effect that a statement may have on the data, concluded from its first words:
 * - `read`: none. A SELECT that calls a stored function counts as a read, although the function may write
 * - `atomic`: all or nothing, since the database rolls back a single statement that fails
 * - `partial`: changes made before a failure may stay
 * - `compound`: as `partial`, and it may run statements that have yet to be parsed
 */
export type Effect = 'read' | 'atomic' | 'partial' | 'compound';

const reads = wordsOf('SELECT WITH VALUES TABLE SHOW DESCRIBE DESC EXPLAIN HELP USE CHECKSUM');
/**
 * MySQL manual, "Atomic Data Definition Statement Support"; MariaDB manual, "Atomic DDL". DROP is not atomic, since it may name
 * several objects. See `isPartial` for the exceptions of MariaDB.
 */
const atomics = wordsOf(
  'INSERT UPDATE DELETE REPLACE LOAD DO SET CREATE ALTER TRUNCATE RENAME START BEGIN COMMIT ROLLBACK SAVEPOINT RELEASE ' +
    'LOCK UNLOCK',
);
const accounts = wordsOf('USER ROLE');
const droppedFirst = wordsOf('TABLE TEMPORARY SEQUENCE DATABASE SCHEMA USER ROLE');
const compounds = wordsOf('CALL EXECUTE IF CASE LOOP REPEAT WHILE FOR');

export function effectOf(sql: string): Effect {
  const first = wordAt(sql, 0);
  // An executable comment may hold any statement. Other text that does not begin with a word is not a statement.
  if (first === null) return /\/\*[!M]/.test(sql) ? 'compound' : 'partial';
  const { word, end } = first;
  if (compounds.has(word)) return 'compound';
  const second = word === 'BEGIN' || word === 'SET' ? wordAt(sql, end)?.word : undefined;
  // MariaDB: BEGIN NOT ATOMIC begins a compound statement, and SET STATEMENT … FOR runs the statement that follows it.
  if ((word === 'BEGIN' && second === 'NOT') || (word === 'SET' && second === 'STATEMENT')) return 'compound';
  // Common table expressions may precede UPDATE and DELETE, and SELECT … INTO may write a file.
  if (word === 'WITH' && /\b(?:update|delete|insert|replace)\b/i.test(sql)) return 'atomic';
  if ((word === 'SELECT' || word === 'WITH' || word === 'TABLE') && /\binto\b/i.test(sql)) return 'atomic';
  // MySQL: EXPLAIN ANALYZE runs what it explains.
  if (word === 'EXPLAIN' && /\banalyze\b/i.test(sql)) return 'atomic';
  if (reads.has(word)) return 'read';
  return atomics.has(word) && !isPartial(sql, word, end) ? 'atomic' : 'partial';
}

/**
 * Whether MariaDB keeps a part of a statement that fails. CREATE OR REPLACE drops the old object before it creates the new one,
 * and users and roles of a list are processed one by one (MariaDB manual, "CREATE TABLE", "CREATE USER", "RENAME USER").
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
