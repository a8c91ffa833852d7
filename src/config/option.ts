import { ConfigError } from './config-error.ts';

export const KiB = 1024;
export const MiB = 1024 * KiB;
export const GiB = 1024 * MiB;
export const TiB = 1024 * GiB;

/** The longest that a timer of Node can run. */
export const timerSecsMax = 2_147_483;

/** A whole number. `default`, `min` and `max` are in the unit in which the user gives the value. */
export interface NumberOption {
  readonly kind: 'number';
  readonly unit: string;
  readonly default: number;
  /** The default in words, if it depends on the machine. */
  readonly defaultText?: string;
  readonly min: number;
  readonly max: number;
  /** The value in `Config` is the given one times this: 1,000 for an option in seconds. */
  readonly scale: number;
  /**
   * The option of the total of which this is the share of one user. A share that is given must not exceed it; the default is
   * lowered to it.
   */
  readonly total?: string;
  readonly help: string;
}

/** Any text, or a text that `parse` turns into a `Value`. */
export interface TextOption<Value = string> {
  readonly kind: 'text';
  /** Stands for the value in `--help`, such as FILE. */
  readonly placeholder: string;
  /** Empty: none. */
  readonly default: string;
  /** @throws ConfigError */
  readonly parse: (text: string) => Value;
  /** Whether it may be given as an empty text. */
  readonly mayBeEmpty?: boolean;
  readonly help: string;
}

/** One of several words. */
export interface ChoiceOption<Choice extends string = string> {
  readonly kind: 'choice';
  readonly choices: readonly Choice[];
  readonly default: NoInfer<Choice>;
  readonly help: string;
}

/** On or off; off unless it is given. */
export interface FlagOption {
  readonly kind: 'flag';
  readonly help: string;
}

export type Option = NumberOption | TextOption<unknown> | ChoiceOption | FlagOption;

/** The options of one subject, by name. */
export interface OptionGroup {
  /** The heading in `--help` and in docs/options.md. */
  readonly title: string;
  readonly options: Readonly<Record<string, Option>>;
}

/** The type of an option's value in `Config`. */
export type ValueOf<Of extends Option> = Of extends NumberOption
  ? number
  : Of extends FlagOption
    ? boolean
    : Of extends ChoiceOption<infer Choice>
      ? Choice
      : Of extends TextOption<infer Value>
        ? Value
        : never;

/** The name of an option's member in `Config`: `queue_wait_secs` is `queueWaitMs`. */
export type MemberName<Name extends string> = Uncapitalize<Joined<Name>>;

type Joined<Name extends string> = Name extends `${infer Word}_${infer Rest}`
  ? `${JoinedWord<Word>}${Joined<Rest>}`
  : JoinedWord<Name>;

type JoinedWord<Word extends string> = Word extends 'secs' ? 'Ms' : Capitalize<Word>;

/** The same as `MemberName`, at run time. */
export function memberName<Name extends string>(name: Name): MemberName<Name> {
  const joined = name.replaceAll(/_([a-z]+)/g, (_, word: string) =>
    word === 'secs' ? 'Ms' : word.charAt(0).toUpperCase() + word.slice(1),
  );
  return joined as MemberName<Name>;
}

type Described<Kind extends Option> = Omit<Kind, 'kind'>;
type Range = Omit<Described<NumberOption>, 'unit' | 'scale'>;

/** @param unit a plural, or the name of the scale */
export function count(unit: string, range: Range): NumberOption {
  return { kind: 'number', unit, scale: 1, ...range };
}

export function bytes(range: Range): NumberOption {
  return count('bytes', range);
}

/** A duration that the user gives in seconds. The option's name contains `_secs`. */
export function seconds(range: Range): NumberOption {
  return { kind: 'number', unit: 's', scale: 1_000, ...range };
}

/** A duration that the user gives in milliseconds. The option's name ends with `_ms`. */
export function milliseconds(range: Range): NumberOption {
  return count('ms', range);
}

export function text(option: Omit<Described<TextOption>, 'parse'>): TextOption {
  return { kind: 'text', parse: (given) => given, ...option };
}

export function parsedText<Value>(option: Described<TextOption<Value>>): TextOption<Value> {
  return { kind: 'text', ...option };
}

export function choice<Choice extends string>(option: Described<ChoiceOption<Choice>>): ChoiceOption<Choice> {
  return { kind: 'choice', ...option };
}

export function flag(help: string): FlagOption {
  return { kind: 'flag', help };
}

const flagValues: ReadonlyMap<string, boolean> = new Map([
  ['on', true],
  ['off', false],
  ['true', true],
  ['false', false],
  ['1', true],
  ['0', false],
]);

/** A value as it was given. */
export interface GivenValue {
  readonly text: string;
  /** The flag or the environment variable that it was given by. */
  readonly source: string;
}

/**
 * The value for `Config`.
 * @throws ConfigError
 */
export function readValue(option: Option, given: GivenValue | undefined): unknown {
  switch (option.kind) {
    case 'number':
      return option.scale * (given === undefined ? option.default : numberOf(option, given));
    case 'text':
      if (given?.text === '' && !option.mayBeEmpty) throw emptyText(option, given);
      return option.parse(given?.text ?? option.default);
    case 'choice':
      if (given === undefined) return option.default;
      if (!option.choices.includes(given.text)) throw notOneOf(option.choices, given);
      return given.text;
    case 'flag': {
      const isOn = given === undefined ? false : flagValues.get(given.text);
      if (isOn === undefined) throw notOneOf([...flagValues.keys()], given as GivenValue);
      return isOn;
    }
  }
}

function numberOf(option: NumberOption, given: GivenValue): number {
  const value = Number(given.text);
  if (!/^[0-9]+$/.test(given.text) || value < option.min || value > option.max) {
    throw new ConfigError(notInRange(option, given));
  }
  return value;
}

/** The message about a value that is no whole number, or out of range. */
export function notInRange({ min, max }: NumberOption, { text, source }: GivenValue): string {
  return `${source} is '${text}'; it must be a whole number from ${min} to ${max}`;
}

function emptyText(option: TextOption<unknown>, { source }: GivenValue): ConfigError {
  return new ConfigError(`${source} is empty: leave it out for the default (${option.default || 'none'})`);
}

function notOneOf(words: readonly string[], { text, source }: GivenValue): ConfigError {
  return new ConfigError(`${source} is '${text}'; it must be one of ${words.join(', ')}`);
}
