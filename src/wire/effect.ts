/**
 * What a statement may do to the data, as far as its first word tells: `read`: nothing; `whole`: all or nothing, since the
 * database takes a single statement back that fails; `parts`: what it has done before it failed may stay; `block`: the same,
 * and it may run statements that are yet to be parsed. A SELECT that calls a stored function is taken for a read, though the
 * function may write.
 */
export type Effect = 'read' | 'whole' | 'parts' | 'block';

/** Blanks, comments and opening parentheses before the first word. An executable comment is no comment. */
const beforeFirstWord =
  /^(?:[\s(]|--(?=\s|$)[^\n]*(?:\n|$)|#[^\n]*(?:\n|$)|\/\*(?![!M])[\s\S]*?\*\/|\/\*M(?!!)[\s\S]*?\*\/)*/;

const reads = new Set(['select', 'values', 'table', 'show', 'describe', 'desc', 'explain', 'help', 'use', 'checksum']);
/** MySQL manual, "Atomic Data Definition Statement Support"; MariaDB manual, "Atomic DDL". DROP may name many. */
const wholes = new Set(
  ['insert', 'update', 'delete', 'replace', 'load', 'do', 'set', 'create', 'alter', 'truncate', 'rename'].concat(
    'start begin commit rollback savepoint release lock unlock'.split(' '),
  ),
);

const blocks = new Set(['call', 'execute', 'if', 'case', 'loop', 'repeat', 'while', 'for']);

export function effectOf(sql: string): Effect {
  const from = beforeFirstWord.exec(sql)?.[0].length ?? 0;
  const word = /^[a-z]+/i.exec(sql.slice(from, from + 16))?.[0].toLowerCase() ?? '';
  // Common table expressions may come before UPDATE and DELETE, and what is selected may go to a file.
  if (word === 'with') return /\b(?:update|delete|insert|replace)\b/i.test(sql) ? 'whole' : 'read';
  if (word === 'select') return /\binto\b/i.test(sql) ? 'whole' : 'read';
  // MariaDB: BEGIN NOT ATOMIC is a block of statements.
  if (word === 'begin' && /^begin\s+not\b/i.test(sql.slice(from))) return 'block';
  // MariaDB: SET STATEMENT … FOR is whatever comes behind it.
  if (word === 'set' && /^set\s+statement\b/i.test(sql.slice(from))) return 'block';
  if (reads.has(word)) return 'read';
  if (blocks.has(word)) return 'block';
  return wholes.has(word) ? 'whole' : 'parts';
}
