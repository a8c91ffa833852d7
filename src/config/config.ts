import type { MemberName, Option, ValueOf } from './option.ts';
import type { groups } from './options.ts';

type Groups = typeof groups;

/**
 * The values of all options, by group. A member has the option's name in camel case: `--sessions_max` is
 * `config.sessions.sessionsMax`. All durations are in milliseconds: `--queue_wait_secs` is `config.queue.queueWaitMs`.
 */
export type Config = { readonly [Name in keyof Groups]: GroupValues<Groups[Name]['options']> };

type GroupValues<Options extends Readonly<Record<string, Option>>> = {
  readonly [Name in keyof Options & string as MemberName<Name>]: ValueOf<Options[Name]>;
};
