import type { DispatchedStatement } from '#src/query/dispatched-statement.js';
import type { Query } from '#src/query/query.js';
import type { Statement, StatementHandle, StatementObserver, StatementRequest } from '#src/wire/statement.js';

export type Run = (request: StatementRequest, observer: StatementObserver) => StatementHandle;

/** Runs a query's statement by a function, in the place of the dispatcher. */
export function runBy(query: Query, statement: Statement, run: Run, isStandalone = true): void {
  new RunningStatement(query, statement, run, isStandalone).resend();
}

export const idleHandle: StatementHandle = {
  credit: () => {},
  cancel: () => {},
  askExamined: () => {},
  queuePosition: () => null,
};

/** Sends its statement, and once more at most. */
class RunningStatement implements DispatchedStatement {
  readonly #query: Query;
  readonly #run: Run;
  #sendsLeft: number;
  #handle: StatementHandle | null = null;

  constructor(query: Query, statement: Statement, run: Run, isStandalone: boolean) {
    this.#query = query;
    this.#run = run;
    this.#sendsLeft = isStandalone ? 2 : 1;
    query.begin(statement, isStandalone, this);
  }

  get canResend(): boolean {
    return this.#sendsLeft > 0;
  }

  resend(): void {
    this.#sendsLeft--;
    this.#handle = this.#run(this.#query.statementRequest(), this.#query);
  }

  end(): void {}

  credit(bytes: number, rows: number): void {
    this.#handle?.credit(bytes, rows);
  }

  cancel(): void {
    this.#handle?.cancel();
  }

  askExamined(): void {
    this.#handle?.askExamined();
  }

  queuePosition(): number | null {
    return this.#handle?.queuePosition() ?? null;
  }
}
