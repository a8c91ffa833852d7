import type { StatementHandle } from '../wire/statement.ts';

/** A query's handle on its statement, from the queue to its end. */
export interface DispatchedStatement extends StatementHandle {
  /** Whether it can be sent to another connection, should the first be lost before it was sent. */
  readonly canResend: boolean;
  /** Sends it to another connection, now or when it is its turn. */
  resend(): void;
  /** Nothing more is reported of the statement. */
  end(): void;
}
