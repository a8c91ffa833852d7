import { once } from 'node:events';
import { Link } from '../wire/link.ts';
import type { FromWorker, ThreadTask, ToWorker } from '../wire/messages.ts';
import type { Control } from './control.ts';
import { Executor } from './executor.ts';
import { Watchdog } from './watchdog.ts';

/** Piscina's task: it lasts as long as the thread. Each channel of its port is one database connection. */
export default async function serve(task: ThreadTask): Promise<void> {
  /** The control connections of this thread, by login. */
  const controls = new Map<string, Control>();
  const watchdog = new Watchdog(task.limits);
  new Link<FromWorker, ToWorker>(task.port, (channel) => {
    channel.once('message', (message) => {
      if (message.type === 'open') void new Executor(channel, message.login, task, controls, watchdog).open();
    });
  });
  await once(task.port, 'close');
}
