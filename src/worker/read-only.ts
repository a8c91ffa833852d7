import { firstWordOfText, type SqlText, saysNothing } from '../wire/sql-traits.ts';
import { wordAt } from '../wire/words.ts';
import { CheckedPipeline } from './checked-pipeline.ts';
import { readOnlySession } from './connection-reset.ts';
import { ServerError } from './failures.ts';

/**
 * Enforces `--read_only`. A statement runs in a read-only transaction of its own. It is sent only after the transaction has begun,
 * and only if its first words show that it cannot end the transaction. The database itself enforces the transaction on everything
 * that the statement runs, down to stored functions, triggers and views. Data definition statements are refused here: they end the
 * transaction first (MySQL manual, "Statements That Cause an Implicit Commit"), so that only a variable of the session would stop
 * them.
 */

const begin = { type: 'query', sql: 'START TRANSACTION READ ONLY' } as const;

/** Sent before a statement on a clean connection. */
export const beginReadOnly = new CheckedPipeline([begin]);

/** The same for a kept session, which a stored function may have set to READ WRITE. */
export const beginReadOnlyAgain = new CheckedPipeline([{ type: 'query', sql: readOnlySession }, begin]);

/** Sent after a statement in a kept session. NO CHAIN NO RELEASE overrides `completion_type`. */
export const endReadOnly = new CheckedPipeline([{ type: 'query', sql: 'COMMIT AND NO CHAIN NO RELEASE' }]);

/** The error of both servers for a write in a read-only transaction (ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION). */
const errorNumber = 1792;
const sqlState = '25006';
const errorMessage = 'Cannot execute statement in a READ ONLY transaction';

/** @returns why a statement must not be sent; null if the database enforces the read-only transaction on it */
export function readOnlyRefusal(text: SqlText): ServerError | null {
  const reason = whyRefused(text);
  return reason === null ? null : new ServerError(errorNumber, sqlState, `${errorMessage} (--read_only): ${reason}`);
}

/** Reads, and writes of rows, which both servers refuse in a read-only transaction without ending it. */
const letThrough = new Set(
  (
    'SELECT WITH VALUES TABLE SHOW DESCRIBE DESC EXPLAIN HELP CHECKSUM DO USE SET ANALYZE ' +
    'INSERT UPDATE DELETE REPLACE'
  ).split(' '),
);

/** Why known statements are refused. */
const reasons = new Map<string, string>([
  ...reasonOf('START BEGIN COMMIT ROLLBACK SAVEPOINT RELEASE XA', 'each statement has a transaction of its own'),
  ...reasonOf(
    'CALL EXECUTE PREPARE IF CASE LOOP WHILE FOR REPEAT DECLARE',
    'what it runs could end the read-only transaction',
  ),
  ...reasonOf('CREATE ALTER DROP TRUNCATE RENAME GRANT REVOKE OPTIMIZE REPAIR LOAD', 'it is a write'),
]);

function reasonOf(keywords: string, reason: string): (readonly [string, string])[] {
  return keywords.split(' ').map((keyword) => [keyword, reason] as const);
}

function whyRefused(text: SqlText): string | null {
  const { sql, traits } = text;
  if (traits?.saysNothing ?? saysNothing(sql)) return null;
  const keyword = firstWordOfText(text);
  if (keyword === null)
    return 'its first word could not be made out; begin with it, and not with an executable comment';
  if (!letThrough.has(keyword)) {
    return `${keyword.slice(0, wordCharsMax)} is refused: ${reasons.get(keyword) ?? 'it is not known to be read-only'}`;
  }
  if (writesFile(sql)) return 'INTO OUTFILE and INTO DUMPFILE are refused: no transaction keeps them from writing';
  if (keyword === 'SET') return whySetRefused(sql);
  if (keyword === 'ANALYZE' && !analysesStatement(sql)) return 'ANALYZE TABLE is refused: it is a write';
  return null;
}

/** The most characters of a word in a message. */
const wordCharsMax = 64;

/**
 * Whether a statement may write a file on the database's host. String literals with the words count too, since the end of a literal
 * depends on the sql_mode and the character set of the session.
 */
function writesFile(sql: string): boolean {
  const into = sql.search(/into/i);
  return into >= 0 && /(?:out|dump)file/i.test(sql.slice(into));
}

/** Words of a SET that affects more than its session, or runs another statement. A version number may precede one in a comment. */
const beyondSession = /(?<![a-z_$])(?:global|persist|persist_only|password|statement|resource)(?![\w$])/i;

function whySetRefused(sql: string): string | null {
  if (!beyondSession.test(sql) && !/default/i.test(sql)) return null;
  // String literals are ignored if only a quote can end them; otherwise their words count.
  const text = /[\\`#]|\/\*|--/.test(sql) ? sql : sql.replace(/'[^']*'|"[^"]*"/g, "''");
  const found = beyondSession.exec(text)?.[0].toUpperCase();
  if (found !== undefined) return `SET with the word ${found} is refused: it reaches beyond its session`;
  const byDefault = text.search(/default/i);
  const setsDefaultRole = byDefault >= 0 && /role/i.test(text.slice(byDefault));
  return setsDefaultRole ? 'SET DEFAULT ROLE is refused: it is a write' : null;
}

/** MariaDB's ANALYZE runs a statement and shows its plan; ANALYZE TABLE of both servers writes statistics. */
function analysesStatement(sql: string): boolean {
  const word = wordAt(sql, wordAt(sql, 0)?.end ?? 0)?.word;
  return (
    word !== undefined && ['FORMAT', 'SELECT', 'WITH', 'VALUES', 'INSERT', 'UPDATE', 'DELETE', 'REPLACE'].includes(word)
  );
}
