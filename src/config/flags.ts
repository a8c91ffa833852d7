import { parseArgs } from 'node:util';
import { nearest } from '../nearest.ts';
import { ConfigError } from './config-error.ts';
import { notInRange } from './option.ts';
import { options } from './options.ts';

export interface Flags {
  readonly help: boolean;
  readonly version: boolean;
  /** The texts that the options are given, by the options' names. */
  readonly values: Readonly<Record<string, string | undefined>>;
}

const names = [...Object.keys(options), 'help', 'version'];

const argumentTypes: Readonly<Record<string, { type: 'string' | 'boolean'; short?: string }>> = {
  ...Object.fromEntries(Object.keys(options).map((name) => [name, { type: 'string' as const }])),
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean' },
};

/**
 * Reads the command line. The last of several equal flags counts.
 * @throws ConfigError
 */
export function parseFlags(args: readonly string[]): Flags {
  const spelled = args.map(withUnderscores);
  try {
    const { help, version, ...values } = parseArgs({ args: spelled, options: argumentTypes }).values;
    return {
      help: help === true,
      version: version === true,
      values: values as Record<string, string | undefined>,
    };
  } catch (error) {
    throw new ConfigError(`${explain(error as NodeJS.ErrnoException, spelled)}; see --help`);
  }
}

/** The argument with underscores for the dashes in its name, and with `=on` if it is an on/off option alone. */
function withUnderscores(arg: string): string {
  if (!arg.startsWith('--')) return arg;
  const [name = ''] = arg.slice(2).split('=', 1);
  const spelled = `--${name.replaceAll('-', '_')}${arg.slice(2 + name.length)}`;
  return isFlag(spelled.slice(2)) ? `${spelled}=on` : spelled;
}

function isFlag(name: string): boolean {
  return Object.hasOwn(options, name) && options[name]?.kind === 'flag';
}

/** An error of parseArgs in one line. */
function explain({ code, message }: NodeJS.ErrnoException, args: readonly string[]): string {
  const [, unknown] = code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION' ? (/'--([^'=]*)/.exec(message) ?? []) : [];
  if (unknown !== undefined) {
    const meant = nearest(unknown, names);
    return `unknown option --${unknown}${meant === null ? '' : ` (did you mean --${meant}?)`}`;
  }
  const [, unclear] =
    code === 'ERR_PARSE_ARGS_INVALID_OPTION_VALUE' ? (/'--(\w+)' argument is ambiguous/.exec(message) ?? []) : [];
  if (unclear !== undefined) return explainDash(unclear, args);
  const [, word] = code === 'ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL' ? (/'(.*?)'/.exec(message) ?? []) : [];
  const flag = word === undefined ? undefined : args[args.indexOf(word) - 1]?.replace(/=on$/, '');
  if (flag !== undefined && isFlag(flag.slice(2))) {
    return `'${word}' after ${flag} belongs to no option: write ${flag}=on or ${flag}=off`;
  }
  return message.split(/\.\s/)[0] ?? message;
}

/** A value that begins with a dash, or a flag instead of a value. It is not shown, as it may be a password. */
function explainDash(name: string, args: readonly string[]): string {
  const option = options[name];
  const value = args.find((arg, at) => arg.startsWith('-') && args[at - 1] === `--${name}`) ?? '';
  if (option?.kind === 'number' && /^-\d/.test(value)) return notInRange(option, { text: value, source: `--${name}` });
  return `--${name} has no value; one that begins with a dash is given as --${name}=-…`;
}
