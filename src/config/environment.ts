import { nearest } from '../nearest.ts';
import { ConfigError } from './config-error.ts';
import { options } from './options.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

const prefix = 'SLUICE_';
const names = Object.keys(options);
const variables: ReadonlySet<string> = new Set(names.map(variableOf));

/**
 * Variables that Kubernetes sets in every container for a service whose name is or begins with `sluice` (Kubernetes
 * documentation, "Service", environment variables).
 */
const ofKubernetes = /^SLUICE_(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)$/;
/** `SLUICE_PORT` is such a variable with this value, and a mistake with the number of a port. */
const portUrl = /^(?:tcp|udp|sctp):\/\//;

/** The environment variable of an option. */
export function variableOf(name: string): string {
  return prefix + name.toUpperCase();
}

/** @throws ConfigError if a variable looks like an option and is none */
export function refuseUnknown(environment: Environment): void {
  for (const [variable, value] of Object.entries(environment)) {
    if (value === undefined || !variable.startsWith(prefix) || variables.has(variable)) continue;
    if (ofKubernetes.test(variable) || (variable.endsWith('_PORT') && portUrl.test(value))) continue;
    const meant = nearest(variable.slice(prefix.length).toLowerCase(), names);
    const hint = meant === null ? '' : ` (did you mean ${variableOf(meant)}?)`;
    throw new ConfigError(`unknown option ${variable} in the environment${hint}; see --help`);
  }
}
