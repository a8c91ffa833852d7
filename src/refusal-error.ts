/** Why a request is refused, by what has to change: the user name or password, what the user already has, or the server. */
export type RefusalReason = 'denied' | 'too many' | 'unavailable';

/** A request is refused before its statement runs. */
export class RefusalError extends Error {
  readonly reason: RefusalReason;
  /** When the client may well try again. */
  readonly retryAfterSecs: number;

  constructor(message: string, reason: RefusalReason, retryAfterSecs = 1) {
    super(message);
    this.reason = reason;
    this.retryAfterSecs = retryAfterSecs;
  }
}
