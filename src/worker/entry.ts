import { once } from 'node:events';
import { Link } from '../wire/link.ts';
import type { FromWorker, ThreadTask, ToWorker } from '../wire/messages.ts';
import { SpillUsage } from '../wire/spill-usage.ts';
import type { Control } from './control.ts';
import { Executor, type ThreadParts } from './executor.ts';

/** Piscina's task: it lasts as long as the thread. Each channel of its port is one database connection. */
export default async function serve(task: ThreadTask): Promise<void> {
  const { address, limits, spillUsage, thread } = task;
  const parts: ThreadParts = {
    controls: new Map<string, Control>(),
    spillUsage: new SpillUsage(spillUsage, limits.spill.totalBytesMax, thread),
  };
  new Link<FromWorker, ToWorker>(task.port, (channel) => {
    channel.once('message', (message) => {
      if (message.type === 'open') void new Executor(channel, message.login, { address, limits }, parts).open();
    });
  });
  await once(task.port, 'close');
}
