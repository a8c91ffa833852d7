import { connections } from './groups/connections.ts';
import { database } from './groups/database.ts';
import { disk } from './groups/disk.ts';
import { http } from './groups/http.ts';
import { kept } from './groups/kept.ts';
import { listening } from './groups/listening.ts';
import { log } from './groups/log.ts';
import { memory } from './groups/memory.ts';
import { queries } from './groups/queries.ts';
import { queue } from './groups/queue.ts';
import { requests } from './groups/requests.ts';
import { results } from './groups/results.ts';
import { sessions } from './groups/sessions.ts';
import { stopping } from './groups/stopping.ts';
import { threads } from './groups/threads.ts';
import { users } from './groups/users.ts';
import type { Option, OptionGroup } from './option.ts';

/** All options, in the order of `--help` and of docs/options.md. `Config` has a member for each group. */
export const groups = {
  listening,
  database,
  connections,
  threads,
  users,
  queue,
  queries,
  requests,
  sessions,
  results,
  memory,
  disk,
  kept,
  http,
  log,
  stopping,
} as const satisfies Readonly<Record<string, OptionGroup>>;

/** The same options by name, of all groups. */
export const options: Readonly<Record<string, Option>> = Object.assign(
  {},
  ...Object.values(groups).map((group: OptionGroup) => group.options),
);
