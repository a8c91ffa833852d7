import { RefusalError, type RefusalReason } from '../refusal-error.ts';
import type { DatabaseLimit, Refusal } from '../wire/messages.ts';

/** No connection was opened. `refusal` has the reason, and who has to act. */
export class OpenRefusedError extends RefusalError {
  override readonly name = 'OpenRefusedError';
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(refusal.failure.message, reasonOf(refusal.kind));
    this.refusal = refusal;
  }
}

function reasonOf(kind: Refusal['kind']): RefusalReason {
  return kind === 'denied' || kind === 'too many' ? kind : 'unavailable';
}

/** The connection was lost while it was opened, or just after. */
export function lostBeforeUse(reason: string): OpenRefusedError {
  return new OpenRefusedError({ kind: 'unavailable', failure: { code: 2013, sqlstate: '08S01', message: reason } });
}

/** The limit of the database that has refused a connection; null: the error has another reason. */
export function reachedLimitOf(error: unknown): DatabaseLimit | null {
  const kind = error instanceof OpenRefusedError ? error.refusal.kind : null;
  return kind === 'max connections' || kind === 'max user connections' ? kind : null;
}
