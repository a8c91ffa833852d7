/**
 * Loaded into the servers before their own code (`node --import`), in every thread: names the worker threads, so that their
 * CPU time can be told from that of V8's and libuv's, and lets the main thread tell how busy its event loop was, and how much its
 * heap holds.
 */
import { writeFileSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { isMainThread } from 'node:worker_threads';
import { workerThreadName } from './processes.ts';

/** What a server is asked for. */
export type ServerQuestion = 'utilization' | 'live heap';

if (isMainThread) {
  process.on('message', (question: ServerQuestion) => {
    process.send?.(question === 'utilization' ? performance.eventLoopUtilization() : liveHeapBytes());
  });
  // The benchmark has been ended, however that came about.
  process.on('disconnect', () => process.exit());
  // Nobody who listens is to keep the server from its end.
  process.channel?.unref();
} else {
  writeFileSync('/proc/thread-self/comm', workerThreadName);
}

/** The bytes of the heap that are in use: after a collection, so that garbage is not counted. */
function liveHeapBytes(): number {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  collect();
  return process.memoryUsage().heapUsed;
}
