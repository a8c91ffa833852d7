// Loaded into the service before its own code (NODE_OPTIONS=--import): measures the most CPU time that its main thread takes
// before a timer of 1 ms has its turn. CPU time, since on a busy machine a thread waits for the processor, too. On each SIGUSR2
// it appends that, in milliseconds, to the file that TURN_PROBE_FILE names, and begins anew. Linux only.

import { appendFileSync, existsSync, openSync, readSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

const file = process.env['TURN_PROBE_FILE'];
const statistics = `/proc/self/task/${process.pid}/schedstat`;

/** Whether the system tells the CPU time of a thread. */
export const canMeasureTurns = existsSync(statistics);

if (isMainThread && file !== undefined && canMeasureTurns) {
  const descriptor = openSync(statistics, 'r');
  const bytes = Buffer.alloc(128);
  const cpuMs = (): number => {
    const length = readSync(descriptor, bytes, 0, bytes.length, 0);
    return Number(bytes.toString('latin1', 0, length).split(' ')[0]) / 1e6;
  };
  let last = cpuMs();
  let longest = 0;
  const turn = (): void => {
    const now = cpuMs();
    longest = Math.max(longest, now - last);
    last = now;
  };
  setInterval(turn, 1).unref();
  process.on('SIGUSR2', () => {
    turn();
    appendFileSync(file, `${longest.toFixed(1)}\n`);
    longest = 0;
  });
}
