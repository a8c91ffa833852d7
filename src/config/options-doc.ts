import type { Option, OptionGroup } from './option.ts';
import { groups } from './options.ts';

const head = `\
# Options

Every limit of the server is an option. An option is given as a flag (\`--http_handler_port 9000\`; dashes may stand for underscores) or
in the environment as \`SLUICE_\` and its name in capitals (\`SLUICE_HTTP_HANDLER_PORT=9000\`). A flag wins over the environment. An
option that is off by default is turned on by its name alone (\`--read_only\`). It takes \`on\`, \`off\`, \`true\`, \`false\`, \`1\` or \`0\`
after an equals sign (\`--read_only=off\`) and in the environment. The server does not start with an unknown option, an empty value,
or a value out of range: one line names the option, and for an unknown one the nearest that exists. Variables that
Kubernetes sets for a service named \`sluice\` are no options (\`SLUICE_SERVICE_HOST\`). \`node dist/main.js --help\` prints these
options; \`--version\` prints the version. \`--data_dir\` must be writable, or the server does not start.

The share of one user (\`…_per_user_max\`) must not exceed its total. If only the total is given, the default of the share is lowered
to it.

\`npm run options-doc\` writes this page from the options in \`src/config/groups\`.
`;

/** The text of docs/options.md. */
export function optionsDoc(): string {
  return [head, ...Object.values(groups).map(sectionOf)].join('\n');
}

function sectionOf({ title, options }: OptionGroup): string {
  const rows = Object.entries(options).map(([name, option]) => {
    const [unit, values, byDefault] = cellsOf(option);
    return `| \`--${name}\` | ${byDefault} | ${unit} | ${values} | ${escapeMarkdown(option.help)} |\n`;
  });
  return `## ${title}\n\n| option | default | unit | values | meaning |\n|---|---|---|---|---|\n${rows.join('')}`;
}

function cellsOf(option: Option): [unit: string, values: string, byDefault: string] {
  switch (option.kind) {
    case 'number':
      return [option.unit, `${option.min} to ${option.max}`, option.defaultText ?? String(option.default)];
    case 'text':
      return ['text', option.placeholder.toLowerCase(), option.default || 'none'];
    case 'choice':
      return ['choice', option.choices.map((choice) => `\`${choice}\``).join(', '), option.default];
    case 'flag':
      return ['flag', '`on`, `off`', 'off'];
  }
}

/** The text without what Markdown would take for emphasis or the end of a cell. */
function escapeMarkdown(text: string): string {
  return text.replaceAll(/[*|]/g, '\\$&');
}
