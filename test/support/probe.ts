// Loaded into the service before its own code (NODE_OPTIONS=--import): looks at it from the inside. On each SIGUSR2 it
// collects the garbage and writes one line of JSON to the file that PROBE_FILE names.

import { appendFileSync, readdirSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { isMainThread } from 'node:worker_threads';

/** The resources of the process while it is idle. */
export interface Look {
  readonly heapBytes: number;
  /** Outside of the heap, such as the rows. */
  readonly externalBytes: number;
  /** All of the process, its threads included. */
  readonly residentBytes: number;
  readonly descriptors: number;
  readonly timers: number;
  /** Other handles that keep the process alive: sockets, threads, ports. */
  readonly handles: number;
  /** Listeners on the process and on the handles. */
  readonly listeners: number;
}

// Node's own way to ask this, without which a listener that is added again and again would only show in the memory.
interface ProcessWithHandles {
  _getActiveHandles(): NodeJS.EventEmitter[];
}

const file = process.env['PROBE_FILE'];
if (isMainThread && file !== undefined) {
  // NODE_OPTIONS does not take --expose-gc.
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  process.on('SIGUSR2', () => {
    collect();
    // Promises of closed handles can be collected now.
    setImmediate(() => {
      collect();
      appendFileSync(file, `${JSON.stringify(look())}\n`);
    });
  });
}

function look(): Look {
  const { heapUsed, external, rss } = process.memoryUsage();
  const resources = process.getActiveResourcesInfo();
  const timers = resources.filter((name) => name === 'Timeout').length;
  const handles = (process as unknown as ProcessWithHandles)._getActiveHandles();
  return {
    heapBytes: heapUsed,
    externalBytes: external,
    residentBytes: rss,
    descriptors: process.platform === 'linux' ? readdirSync('/proc/self/fd').length : 0,
    timers,
    handles: resources.length - timers,
    listeners: [process, ...handles].reduce((sum, emitter) => sum + listenersOf(emitter), 0),
  };
}

function listenersOf(emitter: NodeJS.EventEmitter): number {
  // Some handles are no emitters.
  const names = emitter.eventNames?.() ?? [];
  return names.reduce((sum, name) => sum + emitter.listenerCount(name), 0);
}
