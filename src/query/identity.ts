/** Where a statement came from, for the log. */
export interface QueryOrigin {
  /** The X-Request-Id of its POST, or one that the server has made. */
  readonly requestId: string;
  /** The address at the other end of the connection: the client's, or a proxy's; empty if the connection is gone. */
  readonly client: string;
}

export interface QueryIdentity {
  readonly id: string;
  readonly sessionId: string;
  /** The database user who posted it. */
  readonly owner: string;
  /** Its POST has an idempotency key and may be repeated for the first page. */
  readonly hasIdempotencyKey?: boolean;
  /** The answer of `/final` has something for the client that no other answer has. */
  readonly needsFinal?: boolean;
  /** Its result is kept on disk. */
  readonly isKept?: boolean;
  readonly origin?: QueryOrigin;
}
