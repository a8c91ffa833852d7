import { firstWordOfText, type SqlText, saysNothing } from '../wire/sql-traits.ts';
import { wordAt } from '../wire/words.ts';
import { CheckedPipeline } from './checked-pipeline.ts';
import { readOnlySession } from './connection-reset.ts';
import { ServerError } from './failures.ts';

/**
 * How `--read_only` is kept. A statement runs in a read-only transaction of its own, which is known to have begun before
 * the statement is sent, and only if it cannot end that transaction. It is told by its first words alone: what stands
 * behind them, down to stored functions, triggers and views, the database itself holds to the transaction.
 * Definitions are not left to it: their statements end the transaction before they are looked at (MySQL manual,
 * "Statements That Cause an Implicit Commit"), so that nothing but a variable of the session would hold them.
 */

const begin = { type: 'query', sql: 'START TRANSACTION READ ONLY' } as const;

/** What comes before a statement on a connection that is as new. */
export const beginReadOnly = new CheckedPipeline([begin]);

/** What does in a kept session, which a stored function may have set to READ WRITE. */
export const beginReadOnlyAgain = new CheckedPipeline([{ type: 'query', sql: readOnlySession }, begin]);

/** What comes behind a statement in a kept session, whatever `completion_type` says of other commits. */
export const endReadOnly = new CheckedPipeline([{ type: 'query', sql: 'COMMIT AND NO CHAIN NO RELEASE' }]);

/** What both servers say to a write in a read-only transaction (ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION). */
const errorNumber = 1792;
const sqlState = '25006';
const errorMessage = 'Cannot execute statement in a READ ONLY transaction';

/** @returns why a statement is not to be sent; null if the database holds it to the transaction that it is sent in */
export function readOnlyRefusal(text: SqlText): ServerError | null {
  const reason = whyRefused(text);
  return reason === null ? null : new ServerError(errorNumber, sqlState, `${errorMessage} (--read_only): ${reason}`);
}

/** Reads; and writes of rows, which both servers refuse in a read-only transaction without ending it. */
const letThrough = new Set(
  (
    'SELECT WITH VALUES TABLE SHOW DESCRIBE DESC EXPLAIN HELP CHECKSUM DO USE SET ANALYZE ' +
    'INSERT UPDATE DELETE REPLACE'
  ).split(' '),
);

/** Why others are refused, as far as there is more to say than that nothing is known of them. */
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
    return `${keyword.slice(0, wordCharsMax)} is refused: ${reasons.get(keyword) ?? 'it is not known to write nothing'}`;
  }
  if (writesFile(sql)) return 'INTO OUTFILE and INTO DUMPFILE are refused: no transaction keeps them from writing';
  if (keyword === 'SET') return whySetRefused(sql);
  if (keyword === 'ANALYZE' && !analysesStatement(sql)) return 'ANALYZE TABLE is refused: it is a write';
  return null;
}

/** As much of a word is shown. */
const wordCharsMax = 64;

/**
 * Whether a statement may write a file on the database's host. A text that holds the words makes it so too: where texts
 * end depends on the session's modes and character set, and is not for us to say.
 */
function writesFile(sql: string): boolean {
  const into = sql.search(/into/i);
  return into >= 0 && /(?:out|dump)file/i.test(sql.slice(into));
}

/** Words of a SET that reaches beyond its session, or runs another statement; a version number may stand before one. */
const beyondSession = /(?<![a-z_$])(?:global|persist|persist_only|password|statement|resource)(?![\w$])/i;

function whySetRefused(sql: string): string | null {
  if (!beyondSession.test(sql) && !/default/i.test(sql)) return null;
  // Where nothing but their quotes can end them, texts are left out; elsewhere their words count.
  const text = /[\\`#]|\/\*|--/.test(sql) ? sql : sql.replace(/'[^']*'|"[^"]*"/g, "''");
  const found = beyondSession.exec(text)?.[0].toUpperCase();
  if (found !== undefined) return `SET with the word ${found} is refused: it reaches beyond its session`;
  const byDefault = text.search(/default/i);
  const setsDefaultRole = byDefault >= 0 && /role/i.test(text.slice(byDefault));
  return setsDefaultRole ? 'SET DEFAULT ROLE is refused: it is a write' : null;
}

/** MariaDB's ANALYZE runs a statement and tells how; both servers' ANALYZE TABLE writes statistics. */
function analysesStatement(sql: string): boolean {
  const word = wordAt(sql, wordAt(sql, 0)?.end ?? 0)?.word;
  return (
    word !== undefined && ['FORMAT', 'SELECT', 'WITH', 'VALUES', 'INSERT', 'UPDATE', 'DELETE', 'REPLACE'].includes(word)
  );
}
