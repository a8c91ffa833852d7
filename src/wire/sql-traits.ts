import { type Effect, effectOf } from './effect.ts';
import { wordAt } from './words.ts';

/** What the main thread must know of the text of a statement. */
export interface SqlTraits {
  readonly effect: Effect;
  /** In upper case; null if something else comes first. */
  readonly firstWord: string | null;
  readonly hasRollup: boolean;
  /** A SELECT … FOR UPDATE, or the like. */
  readonly locksRows: boolean;
}

/** Searches the whole text, which takes tens of milliseconds if it has megabytes: for those, the parser thread does it. */
export function traitsOf(sql: string): SqlTraits {
  return {
    effect: effectOf(sql),
    firstWord: firstWordOf(sql),
    hasRollup: mentionsRollup(sql),
    locksRows: /\bfor\s+(?:update|share)\b|\block\s+in\b/i.test(sql),
  };
}

export function firstWordOf(sql: string): string | null {
  return wordAt(sql, 0)?.word ?? null;
}

export function mentionsRollup(sql: string): boolean {
  return /\brollup\b/i.test(sql);
}
