// Preloaded by the service (NODE_OPTIONS=--import), its worker threads included: a statement with a mark makes the thread that
// sends it fail as the mark says. The statement is on its way by then.

import { Socket } from 'node:net';
import { isMainThread } from 'node:worker_threads';

/** The marks: comments that a statement may carry. */
export const threadFaults = {
  throws: '/* thread: throws */',
  exits: '/* thread: exits */',
  blocks: '/* thread: blocks */',
  hangs: '/* thread: hangs */',
} as const;

const blockMs = 5_000;
const hangMs = 600_000;

function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

const faults: Readonly<Record<keyof typeof threadFaults, () => void>> = {
  throws: () => {
    throw new Error('a test had the thread throw');
  },
  exits: () => process.exit(7),
  blocks: () => block(blockMs),
  hangs: () => block(hangMs),
};

if (!isMainThread) {
  const write = Socket.prototype.write as (...args: unknown[]) => boolean;
  Socket.prototype.write = function (this: Socket, ...args: unknown[]): boolean {
    const [chunk] = args;
    for (const [name, mark] of Object.entries(threadFaults)) {
      if (!(chunk instanceof Uint8Array) || !Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length).includes(mark))
        continue;
      setImmediate(faults[name as keyof typeof threadFaults]);
    }
    return write.apply(this, args);
  } as Socket['write'];
}
