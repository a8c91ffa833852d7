/**
 * Why a request is refused, by what has to change: the user name or password, what the user already has, the server, or the
 * request itself, which contradicts an earlier one.
 */
export type RefusalReason = 'denied' | 'too many' | 'unavailable' | 'conflict';

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

/** The client went away before its request was done; there is nobody to answer. */
export class RequestAbortedError extends Error {
  override readonly name = 'RequestAbortedError';
}
