import { close, open, readFileSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { devNull } from 'node:os';
import type { Observe } from './events.ts';
import { isOutOfDescriptors } from './troubles.ts';

const checkMs = 1_000;
/** Has an entry for each (Linux, proc_pid_fd(5)). */
const folder = '/proc/self/fd';

/** The file descriptors that are open. Only on Linux. */
export async function countDescriptors(): Promise<number> {
  // Since Linux 6.2 the size of the folder is their number; before, it is 0.
  const { size } = await stat(folder);
  return size > 0 ? size : (await readdir(folder)).length;
}

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

/** How many file descriptors the process may have (proc(5), "/proc/pid/limits"); Infinity where the system does not say. */
export function descriptorsMax(): number {
  try {
    const limit = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1];
    return limit === undefined ? Number.POSITIVE_INFINITY : Number(limit);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}
