import { setImmediate as turn } from 'node:timers/promises';

/** Lets the event loop turn: runs all promise callbacks and immediates that are due without time passing. */
export async function turns(count = 5): Promise<void> {
  for (let turned = 0; turned < count; turned++) await turn();
}

/** Whether the promise is unsettled, though everything has run that was due. */
export async function isPending(promise: Promise<unknown>): Promise<boolean> {
  let isSettled = false;
  const settled = (): void => {
    isSettled = true;
  };
  promise.then(settled, settled);
  await turns();
  return !isSettled;
}
