/**
 * Why a request is refused: its user name or password is wrong, the user has too many of something, the server cannot take it,
 * it contradicts an earlier request, what it asks for is lost, or cannot be had in this form.
 */
export type RefusalReason = 'denied' | 'too many' | 'unavailable' | 'conflict' | 'gone' | 'impossible';

/** A request is refused before its statement runs. */
export class RefusalError extends Error {
  readonly reason: RefusalReason;
  /** For the Retry-After header. */
  readonly retryAfterSecs: number;

  constructor(message: string, reason: RefusalReason, retryAfterSecs = 1) {
    super(message);
    this.reason = reason;
    this.retryAfterSecs = retryAfterSecs;
  }
}

/** The client has disconnected, so there is nobody to answer. */
export class RequestAbortedError extends Error {
  override readonly name = 'RequestAbortedError';
}
