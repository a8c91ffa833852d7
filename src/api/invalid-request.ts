/** The body is not a QueryRequest; the message says where and why. */
export class InvalidRequestError extends Error {
  override readonly name = 'InvalidRequestError';
}

/** Text of a client in an error: printable, on one line. */
export function oneLine(text: string): string {
  return text.replace(/[^\x20-\x7e]+/g, '?');
}
