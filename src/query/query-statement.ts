import type { Effect } from '../wire/effect.ts';
import { type Cause, type Failure, interrupted, lostBefore, undelivered } from '../wire/failures.ts';
import type { KeepRequest } from '../wire/kept-rows.ts';
import { effectOfText } from '../wire/sql-traits.ts';
import type { Statement, StatementRequest } from '../wire/statement.ts';
import type { QueryLimits } from './limits.ts';

/** Of a complete query, so that the text of its statement can be collected. */
const forgotten: Statement = { sql: '', options: null };

/** The statement of a query, and how it fails. */
export class QueryStatement {
  #statement: Statement = forgotten;
  /** Whether it is of no kept session, so that nothing else is lost with its connection. */
  #isStandalone = true;
  /** The database has reported its end. */
  #hasEnded = false;

  set(statement: Statement, isStandalone: boolean): void {
    this.#statement = statement;
    this.#isStandalone = isStandalone;
  }

  ended(): void {
    this.#hasEnded = true;
  }

  forget(): void {
    this.#statement = forgotten;
  }

  get effect(): Effect {
    return effectOfText(this.#statement);
  }

  /** As it is sent to a connection, with the credit for its first rows. */
  request(
    { bufferRows, gzipLevel, pageRows }: QueryLimits,
    creditBytes: number,
    keep: KeepRequest | null,
  ): StatementRequest {
    const { sql, traits, options } = this.#statement;
    return { sql, traits, options, creditBytes, creditRows: bufferRows, gzipLevel, pageRows, keep };
  }

  /** It was sent, and its end is not known, unless it is still being written down. */
  interrupted(cause: Cause): Failure {
    if (this.#hasEnded) return this.undelivered(cause);
    return interrupted(cause, this.effect, this.#isStandalone);
  }

  /** It has succeeded, and its rows cannot be delivered. */
  undelivered(cause: Cause): Failure {
    return undelivered(cause, this.effect);
  }

  /** Its connection was lost before it was sent. */
  lostBefore(reason: string): Failure {
    return lostBefore(reason, this.#isStandalone);
  }
}
