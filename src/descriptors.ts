import { close, open } from 'node:fs';
import { devNull } from 'node:os';
import type { Observe } from './events.ts';
import { isOutOfDescriptors } from './troubles.ts';

const checkMs = 1_000;

/**
 * Opens a file now and then, and reports when there is no descriptor for it. Nothing else does: if there is none for a new
 * connection, libuv closes the connection without a word to Node (libuv, uv__emfile_trick).
 * @returns ends the checks
 */
export function watchDescriptors(observe: Observe): () => void {
  const timer = setInterval(() => {
    open(devNull, 'r', (error, descriptor) => {
      if (error === null) close(descriptor, () => {});
      else if (isOutOfDescriptors(error)) observe({ type: 'descriptors_exhausted', reason: error.message });
    });
  }, checkMs).unref();
  return () => clearInterval(timer);
}
