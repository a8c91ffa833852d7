import { causes, interrupted, undelivered } from '../wire/failures.ts';
import { effectOfText, type SqlText } from '../wire/sql-traits.ts';
import type { StatementObserver } from '../wire/statement.ts';

/** A statement whose observer has not been given its end and all of its rows. */
export interface UnfinishedStatement extends SqlText {
  /** Its number on its connection. */
  readonly number: number;
  readonly observer: StatementObserver;
  /** It depends on no session state, so that nothing but the statement is lost with its connection. */
  readonly isStandalone: boolean;
  /** Rows on disk that follow the end; null before the end. */
  rowsToCome: number | null;
}

/** The unfinished statements of a connection: the one that was sent last, and those before it that are draining. */
export class UnfinishedStatements {
  #last: UnfinishedStatement | null = null;
  /** By their numbers. */
  readonly #draining = new Map<number, UnfinishedStatement>();

  /** The statement that was sent last, if it is unfinished. */
  get last(): UnfinishedStatement | null {
    return this.#last;
  }

  get isEmpty(): boolean {
    return this.#last === null && this.#draining.size === 0;
  }

  /** Adds the statement that is sent now. The one before it has ended. */
  add(statement: UnfinishedStatement): void {
    if (this.#last !== null) this.#draining.set(this.#last.number, this.#last);
    this.#last = statement;
  }

  find(number: number): UnfinishedStatement | null {
    return this.#last?.number === number ? this.#last : (this.#draining.get(number) ?? null);
  }

  /** @returns whether the statement was unfinished */
  delete(number: number): boolean {
    if (this.#last?.number !== number) return this.#draining.delete(number);
    this.#last = null;
    return true;
  }

  /** Reports to all observers that their connection is lost. */
  failAll(reason: string): void {
    for (const statement of this.#draining.values()) this.fail(statement, reason, true);
    if (this.#last !== null) this.fail(this.#last, reason, true);
  }

  /** @param mayHaveBegun whether the statement may have been sent to the database */
  fail(statement: UnfinishedStatement, reason: string, mayHaveBegun: boolean): void {
    const { number, observer, isStandalone, rowsToCome } = statement;
    this.delete(number);
    if (rowsToCome !== null) observer.failed(undelivered(causes.spillFailed(reason), effectOfText(statement)));
    else if (mayHaveBegun)
      observer.failed(interrupted(causes.connectionLost(reason), effectOfText(statement), isStandalone));
    else observer.notSent(reason);
  }
}
