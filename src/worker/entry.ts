import { once } from 'node:events';
import { threadId } from 'node:worker_threads';
import { LargeResults } from '../wire/large-results.ts';
import { type Channel, Link } from '../wire/link.ts';
import type { FromWorker, ThreadTask, ToWorker } from '../wire/messages.ts';
import { SpillUsage } from '../wire/spill-usage.ts';
import { AdminPool } from './admin-pool.ts';
import { Executor, type ThreadParts } from './executor.ts';
import { connectRefusal, type DriverError } from './failures.ts';
import { sweepOrphans } from './orphans.ts';
import { Watchdog } from './watchdog.ts';

type MainChannel = Channel<FromWorker, ToWorker>;

/** Piscina's task: it lasts as long as the thread. Most channels of its port serve one database connection each. */
export default async function serve(task: ThreadTask): Promise<void> {
  const { address, limits, spillUsage, slot, largeResults } = task;
  const parts: ThreadParts = {
    adminPools: new Map<string, AdminPool>(),
    watchdog: new Watchdog(limits),
    spillUsage: new SpillUsage(spillUsage, limits.spill.total, slot),
    largeResults: new LargeResults(largeResults),
  };
  new Link<FromWorker, ToWorker>(task.port, (channel) => {
    channel.once('message', (message) => {
      if (message.type === 'ping') answerPings(channel);
      else if (message.type === 'sweep') void sweep(channel, message, task, parts.adminPools);
      else if (message.type === 'open') void new Executor(channel, message, { address, limits }, parts).open();
    });
  });
  await once(task.port, 'close');
}

/** The main thread finds out by the answers whether this thread is blocked. */
function answerPings(channel: MainChannel): void {
  const answer = (): void => channel.post({ type: 'pong', thread: threadId });
  channel.on('message', answer);
  answer();
}

async function sweep(
  channel: MainChannel,
  { login, orphans }: ToWorker & { type: 'sweep' },
  { address, limits }: ThreadTask,
  adminPools: Map<string, AdminPool>,
): Promise<void> {
  const { user, password } = login;
  const { connectTimeoutMs: timeoutMs, rowBytesMax } = limits;
  try {
    const pool = AdminPool.of(adminPools, { address, user, password, timeoutMs, rowBytesMax });
    channel.post({ type: 'swept', ...(await sweepOrphans(pool, orphans)) });
  } catch (error) {
    channel.post({ type: 'refused', refusal: connectRefusal(error as DriverError) });
  }
  channel.close();
}
