import { type Effect, effectOf } from './effect.ts';
import { pastNothing, wordAt } from './words.ts';

/** What other threads ask about the text of a statement, beyond its first words. */
export interface SqlTraits {
  readonly effect: Effect;
  /** In upper case; null if something else comes first. */
  readonly firstWord: string | null;
  readonly hasRollup: boolean;
  /** A SELECT … FOR UPDATE, or the like. */
  readonly locksRows: boolean;
  readonly saysNothing: boolean;
  readonly leavesUntracked: boolean;
  readonly mayLeaveSchema: boolean;
}

/** The text of a statement. */
export interface SqlText {
  readonly sql: string;
  /** Of a long text, which the parser thread has searched: no other thread is to search all of it. */
  readonly traits?: SqlTraits | undefined;
}

/** Searches the whole text, which takes tens of milliseconds if it has megabytes: for those, the parser thread does it. */
export function traitsOf(sql: string): SqlTraits {
  return {
    effect: effectOf(sql),
    firstWord: firstWordOf(sql),
    hasRollup: mentionsRollup(sql),
    locksRows: /\bfor\s+(?:update|share)\b|\block\s+in\b/i.test(sql),
    saysNothing: saysNothing(sql),
    leavesUntracked: leavesUntracked(sql),
    mayLeaveSchema: mayLeaveSchema(sql),
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
 * Whether a statement says nothing: it has blanks, semicolons, and comments that neither server executes. Both servers answer an
 * empty one with an error and one of comments alone with a success, which would tell a client that something was done.
 */
export function saysNothing(sql: string): boolean {
  return pastNothing(sql, 0, false) === sql.length;
}

/**
 * What neither server's session tracker reports: temporary tables that are made with their rows, user variables that are set in
 * passing, locks other than those of LOCK TABLES, HANDLER, MySQL's roles, and the collation of SET NAMES. The words may stand in
 * a text or a comment as well: the session is then kept without need.
 */
const untracked =
  /\btemporary\b|:=|\binto\s+@|\bget_lock\b|\bread\s+lock\b|\bbackup\s+(?:lock|stage)\b|\bfor\s+backup\b|\bhandler\b|\bset\s+role\b|\bset\s+names\s+\S+\s+collate\b/i;

/** Whether a statement may leave something in its session that the database does not report. */
export function leavesUntracked(sql: string): boolean {
  return untracked.test(sql);
}

/**
 * Whether a statement may select another schema or drop the selected one. None does without these words: stored functions and
 * triggers may do neither. That they may be part of other words costs little.
 */
export function mayLeaveSchema(sql: string): boolean {
  return /use|drop|call|execute/i.test(sql);
}
