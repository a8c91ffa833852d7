import { close, open, readFileSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { devNull } from 'node:os';
import type { Observe } from './events.ts';
import { isOutOfDescriptors } from './troubles.ts';

const checkMs = 1_000;
/** It has an entry for each file descriptor (Linux, proc_pid_fd(5)). */
const folder = '/proc/self/fd';

/** The number of open file descriptors. Only on Linux. */
export async function countDescriptors(): Promise<number> {
  // Since Linux 6.2 the size of the folder is the number of its entries; before, it is 0.
  const { size } = await stat(folder);
  return size > 0 ? size : (await readdir(folder)).length;
}

/**
 * Opens a file every second, and reports if there is no file descriptor for it. Nothing else reports this: if there is none for
 * a new connection, libuv closes the connection without an event (libuv, uv__emfile_trick).
 * @returns a function that ends the checks
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

/** The limit of file descriptors (proc(5), "/proc/pid/limits"); Infinity if the system does not report it. */
export function descriptorsMax(): number {
  try {
    const limit = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1];
    return limit === undefined ? Number.POSITIVE_INFINITY : Number(limit);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}
