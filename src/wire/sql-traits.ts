import { type Effect, effectOf } from './effect.ts';
import { pastNothing, wordAt } from './words.ts';

/** Properties of a statement's text that other threads need, concluded by searching all of it. */
export interface SqlTraits {
  readonly effect: Effect;
  /** In upper case; null if the text does not begin with a word. */
  readonly firstWord: string | null;
  readonly hasRollup: boolean;
  /** SELECT … FOR UPDATE or similar. */
  readonly locksRows: boolean;
  readonly saysNothing: boolean;
  readonly leavesUntracked: boolean;
  readonly mayChangeSchema: boolean;
}

/** The text of a statement. */
export interface SqlText {
  readonly sql: string;
  /** Of a long text, which only the parser thread searches. */
  readonly traits?: SqlTraits | undefined;
}

/** Searches the whole text. This takes tens of milliseconds for megabytes of text, which is then left to the parser thread. */
export function traitsOf(sql: string): SqlTraits {
  return {
    effect: effectOf(sql),
    firstWord: firstWordOf(sql),
    hasRollup: mentionsRollup(sql),
    locksRows: /\bfor\s+(?:update|share)\b|\block\s+in\b/i.test(sql),
    saysNothing: saysNothing(sql),
    leavesUntracked: leavesUntracked(sql),
    mayChangeSchema: mayChangeSchema(sql),
  };
}

export function effectOfText({ sql, traits }: SqlText): Effect {
  return traits?.effect ?? effectOf(sql);
}

export function firstWordOfText({ sql, traits }: SqlText): string | null {
  return traits === undefined ? firstWordOf(sql) : traits.firstWord;
}

export function firstWordOf(sql: string): string | null {
  return wordAt(sql, 0)?.word ?? null;
}

export function mentionsRollup(sql: string): boolean {
  return /\brollup\b/i.test(sql);
}

/**
 * Whether a statement consists of blanks, semicolons, and comments that neither server executes. Both servers return an error for an
 * empty statement and a success for one of comments only, which would suggest to a client that something was done.
 */
export function saysNothing(sql: string): boolean {
  return pastNothing(sql, 0, false) === sql.length;
}

/**
 * Changes that neither server's session tracker reports: temporary tables created with their rows, user variables set within another
 * statement, locks other than those of LOCK TABLES, HANDLER, MySQL's roles, and the collation of SET NAMES. If a text or a comment
 * contains the words, the session is kept unnecessarily.
 */
const untracked =
  /\btemporary\b|:=|\binto\s+@|\bget_lock\b|\bread\s+lock\b|\bbackup\s+(?:lock|stage)\b|\bfor\s+backup\b|\bhandler\b|\bset\s+role\b|\bset\s+names\s+\S+\s+collate\b/i;

/** Whether a statement may change its session in a way that the database does not report. */
export function leavesUntracked(sql: string): boolean {
  return untracked.test(sql);
}

/**
 * Whether a statement may select another schema or deselect the selected one. Both require one of these words, since stored
 * functions and triggers may do neither. The words may also be part of other words, which costs little. MariaDB deselects a schema
 * that CREATE OR REPLACE DATABASE or ALTER DATABASE … UPGRADE DATA DIRECTORY NAME replaces.
 */
export function mayChangeSchema(sql: string): boolean {
  return /use|drop|call|execute/i.test(sql) || (/replace|upgrade/i.test(sql) && /database|schema/i.test(sql));
}
