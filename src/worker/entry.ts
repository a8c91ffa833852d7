import type { LeaseTask } from '../wire/messages.ts';
import type { Control } from './control.ts';
import { Executor } from './executor.ts';

/** The control connections of this thread, by login. */
const controls = new Map<string, Control>();

/** Piscina's task: it lasts as long as the connection that it serves. */
export default async function serve(task: LeaseTask): Promise<void> {
  const executor = new Executor(task, controls);
  await executor.open();
  await executor.finished;
}
