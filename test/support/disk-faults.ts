// Loaded into a service before its own code (NODE_OPTIONS=--import): makes writes to files fail as a bad disk would. What is
// to happen stands in the file that DISK_FAULTS names: an error code, and the number of writes that still succeed. It holds from
// the moment it is read, for all later writes of the thread, until something else stands there.

import { readFileSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { isMainThread } from 'node:worker_threads';

const path = process.env['DISK_FAULTS'];

if (path !== undefined && !isMainThread) {
  const handle = await open(path);
  const prototype = Object.getPrototypeOf(handle) as FileHandle;
  await handle.close();
  const write = prototype.write as (this: FileHandle, ...args: unknown[]) => Promise<unknown>;
  let order = '';
  let left = Number.POSITIVE_INFINITY;
  const faulty = function (this: FileHandle, ...args: unknown[]): Promise<unknown> {
    const now = readFileSync(path, 'utf8').trim();
    if (now !== order) {
      order = now;
      left = now === '' ? Number.POSITIVE_INFINITY : Number(now.split(' ')[1]);
    }
    if (left-- > 0) return write.apply(this, args);
    const code = order.split(' ')[0] ?? '';
    return Promise.reject(Object.assign(new Error(`${code}: a fault of the test, write`), { code, syscall: 'write' }));
  };
  prototype.write = faulty as unknown as FileHandle['write'];
}
