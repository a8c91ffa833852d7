import { MessageChannel, type MessagePort } from 'node:worker_threads';

/** What is posted to it is taken from this thread and thrown away, as nobody listens at the other end. */
const nowhere = closedPort();

/**
 * Frees the memory of batches at once, and leaves their buffers with no bytes. A collector of garbage would find it much
 * later, if megabytes are held by objects of a few bytes; and to find it, it would go through all other objects.
 * (`ArrayBuffer.prototype.transfer` does the same, but Node 20 has none.)
 */
export function giveBack(buffers: ArrayBuffer[]): void {
  if (buffers.length > 0) nowhere.postMessage(null, buffers);
}

function closedPort(): MessagePort {
  const { port1, port2 } = new MessageChannel();
  port1.close();
  return port2;
}
