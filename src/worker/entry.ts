import { once } from 'node:events';
import { threadId } from 'node:worker_threads';
import { type Channel, Link } from '../wire/link.ts';
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
      if (message.type === 'ping') answerPings(channel);
      else if (message.type === 'open') void new Executor(channel, message.login, task, controls, watchdog).open();
    });
  });
  await once(task.port, 'close');
}

/** The main thread hears that this one is not held up. */
function answerPings(channel: Channel<FromWorker, ToWorker>): void {
  const answer = (): void => channel.post({ type: 'pong', thread: threadId });
  channel.on('message', answer);
  answer();
}
