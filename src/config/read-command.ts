import type { Config } from './config.ts';
import { ConfigError } from './config-error.ts';
import { requestMemoryLimit } from './derived.ts';
import { type Environment, refuseUnknown, variableOf } from './environment.ts';
import { parseFlags } from './flags.ts';
import { type GivenValue, memberName, type OptionGroup, readValue } from './option.ts';
import { groups } from './options.ts';

export type Command =
  | { readonly type: 'help' }
  | { readonly type: 'version' }
  | { readonly type: 'serve'; readonly config: Config };

/** Each option with its member of `Config`, its flag and its environment variable. */
const optionNames = Object.entries<OptionGroup>(groups).flatMap(([group, { options }]) =>
  Object.entries(options).map(([name, option]) => ({
    group,
    name,
    option,
    member: memberName(name),
    flag: `--${name}`,
    environmentVariable: variableOf(name),
  })),
);

/**
 * Reads the command line and the environment. A flag wins over the environment.
 * @throws ConfigError
 */
export function readCommand(args: readonly string[], environment: Environment): Command {
  const flags = parseFlags(args);
  if (flags.help) return { type: 'help' };
  if (flags.version) return { type: 'version' };
  refuseUnknown(environment);
  const given = new Map<string, GivenValue>();
  const values = new Map<string, unknown>();
  for (const { name, option, flag, environmentVariable } of optionNames) {
    const value = givenBy(flag, flags.values[name]) ?? givenBy(environmentVariable, environment[environmentVariable]);
    if (value !== undefined) given.set(name, value);
    values.set(name, readValue(option, value));
  }
  limitShares(values, given);
  const config = configOf(values);
  check(config, given);
  return { type: 'serve', config };
}

/** @throws ConfigError if the share of one user is given and exceeds the total; its default is lowered */
function limitShares(values: Map<string, unknown>, given: ReadonlyMap<string, GivenValue>): void {
  for (const { name, option } of optionNames) {
    if (option.kind !== 'number' || option.total === undefined) continue;
    const total = values.get(option.total) as number;
    if ((values.get(name) as number) <= total) continue;
    const share = given.get(name);
    if (share !== undefined) {
      throw new ConfigError(`${share.source} is ${share.text}; it must not be more than --${option.total}, ${total}`);
    }
    values.set(name, total);
  }
}

function configOf(values: ReadonlyMap<string, unknown>): Config {
  const config: Record<string, Record<string, unknown>> = {};
  for (const { group, name, member } of optionNames) {
    config[group] ??= {};
    config[group][member] = values.get(name);
  }
  for (const group of Object.values(config)) Object.freeze(group);
  // The type of `Config` is made from the same table.
  return Object.freeze(config) as unknown as Config;
}

function givenBy(source: string, text: string | undefined): GivenValue | undefined {
  return text === undefined ? undefined : { text, source };
}

/** Bytes of request memory for each byte of a body: the body itself, and at most three for its statement (see `heapBytes`). */
const requestBytesPerBodyByte = 4;

/** Checks options against each other. @throws ConfigError */
function check(config: Config, given: ReadonlyMap<string, GivenValue>): void {
  const { listening, connections, users, memory, requests, results, sessions } = config;
  if (memory.queryBufferBytesMax < results.pageBytesMax) {
    throw new ConfigError('--query_buffer_bytes_max must not be less than --page_bytes_max, or no page could fill');
  }
  if (memory.resultsBytesMax < memory.bufferBytesMax) {
    throw new ConfigError(
      '--results_bytes_max must not be less than --buffer_bytes_max, or statements would fail that could wait',
    );
  }
  const requestBytesMin = requestBytesPerBodyByte * requests.bodyBytesMax;
  if (requestMemoryLimit(memory).perUserMax < requestBytesMin) {
    const name = memory.requestBytesPerUserMax === 0 ? 'request_bytes_max' : 'request_bytes_per_user_max';
    throw new ConfigError(
      `--${name} must leave one user at least ${requestBytesMin} bytes, ${requestBytesPerBodyByte} times --body_bytes_max, or ` +
        'large bodies would always be refused',
    );
  }
  if ((listening.tlsCert === '') !== (listening.tlsKey === '')) {
    throw new ConfigError('--tls_cert and --tls_key are given together or not at all');
  }
  if (users.anonymousUser === '' && users.anonymousPassword !== '') {
    throw new ConfigError('--anonymous_password is given without --anonymous_user');
  }
  // The default is no promise: with fewer connections, statements that open sessions wait.
  if (given.has('sessions_max') && sessions.sessionsMax > connections.connectionsMax) {
    throw new ConfigError(
      '--sessions_max must not be more than --connections_max, because each session holds a connection',
    );
  }
}
