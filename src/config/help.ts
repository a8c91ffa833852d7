import { version } from '../version.ts';
import type { Option, OptionGroup } from './option.ts';
import { groups } from './options.ts';

const columns = 100;
const indent = '      ';

const head = `\
usage: sluice [--option value]…
       sluice --help | --version

examples:
  sluice                              a private MariaDB with sample data, on http://127.0.0.1:8000
  sluice --mysql_url mysql://127.0.0.1:3306/shop --http_handler_port 9000
  SLUICE_MYSQL_URL=mysql://monitor:secret@db.example/shop sluice --read_only --log_level=warn

Each option can also be set as SLUICE_NAME in the environment. A flag wins over the environment.
Dashes may stand for underscores. An option that is off by default is turned on by its name alone,
and takes on or off after an equals sign (--read_only=off).
`;

/** The text of `--help`. */
export function helpText(): string {
  const sections = Object.values(groups).map(sectionOf);
  return [`sluice ${version}: SQL over HTTP for MySQL and MariaDB\n`, head, ...sections].join('\n');
}

function sectionOf({ title, options }: OptionGroup): string {
  const entries = Object.entries(options).map(([name, option]) => {
    const usage = `  --${name} ${placeholderOf(option)}`.trimEnd();
    return usage + wrap(`${option.help} (${valueHelp(option)})`);
  });
  return `${title}:\n${entries.join('\n')}\n`;
}

function placeholderOf(option: Option): string {
  switch (option.kind) {
    case 'number':
      return 'N';
    case 'text':
      return option.placeholder;
    case 'choice':
      return option.choices.join('|');
    case 'flag':
      return '';
  }
}

function valueHelp(option: Option): string {
  switch (option.kind) {
    case 'number':
      return `${option.unit}, ${option.min} to ${option.max}, default: ${option.default}`;
    case 'text':
    case 'choice':
      return `default: ${option.default || 'none'}`;
    case 'flag':
      return 'default: off';
  }
}

/** The text in indented lines. A line is longer than `columns` only if it is a single word. */
function wrap(text: string): string {
  let wrapped = '';
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && indent.length + line.length + 1 + word.length > columns) {
      wrapped += `\n${indent}${line}`;
      line = word;
    } else {
      line += line === '' ? word : ` ${word}`;
    }
  }
  return `${wrapped}\n${indent}${line}`;
}
