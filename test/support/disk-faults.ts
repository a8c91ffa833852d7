// Loaded into a service before its own code (NODE_OPTIONS=--import): makes writes to files, or reads, fail as a bad disk would. What
// is to happen stands in the file that DISK_FAULTS names: an error code, the number of writes that still succeed, anything that makes
// the order another than the last, and `read` if reads are to fail instead. It holds from the moment it is read, for all later calls of
// the thread, until something else stands there.

import { readFileSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { isMainThread } from 'node:worker_threads';

const path = process.env['DISK_FAULTS'];

if (path !== undefined && !isMainThread) {
  const handle = await open(path);
  const prototype = Object.getPrototypeOf(handle) as FileHandle;
  await handle.close();
  let order = '';
  let left = Number.POSITIVE_INFINITY;
  for (const call of ['write', 'read'] as const) {
    const original = prototype[call] as unknown as (this: FileHandle, ...args: unknown[]) => Promise<unknown>;
    const faulty = function (this: FileHandle, ...args: unknown[]): Promise<unknown> {
      const now = readFileSync(path, 'utf8').trim();
      if (now !== order) {
        order = now;
        left = now === '' ? Number.POSITIVE_INFINITY : Number(now.split(' ')[1]);
      }
      const [code = '', , , failing = 'write'] = order.split(' ');
      if (call !== failing || left-- > 0) return original.apply(this, args);
      return Promise.reject(Object.assign(new Error(`${code}: a fault of the test, ${call}`), { code, syscall: call }));
    };
    Object.assign(prototype, { [call]: faulty });
  }
}
