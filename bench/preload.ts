/**
 * Loaded into the servers before their own code (`node --import`), in every thread: names the worker threads, so that their
 * CPU time can be told from that of V8's and libuv's, and lets the main thread tell how busy its event loop was.
 */
import { writeFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';
import { workerThreadName } from './processes.ts';

if (isMainThread) {
  process.on('message', () => process.send?.(performance.eventLoopUtilization()));
  // The benchmark has been ended, however that came about.
  process.on('disconnect', () => process.exit());
  // Nobody who listens is to keep the server from its end.
  process.channel?.unref();
} else {
  writeFileSync('/proc/thread-self/comm', workerThreadName);
}
