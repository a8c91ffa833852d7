import { MessageChannel, type MessagePort } from 'node:worker_threads';

/** Below this size, garbage collection is cheaper than `freeBuffers`. */
export const freedBytesMin = 16 * 1024;

/** A port without a peer: buffers transferred to it leave this thread and are freed. */
const nowhere = closedPort();

/**
 * Frees memory at once and leaves its buffers with no bytes. The garbage collector would free it much later, as it counts
 * objects of a few bytes, and would visit all other objects to do so. (`ArrayBuffer.prototype.transfer` would do
 * the same, but Node 20 does not have it.)
 */
export function freeBuffers(buffers: ArrayBuffer[]): void {
  if (buffers.length > 0) nowhere.postMessage(null, buffers);
}

function closedPort(): MessagePort {
  const { port1, port2 } = new MessageChannel();
  port1.close();
  return port2;
}
