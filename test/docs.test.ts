import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { options } from '#src/config/options.js';
import { anchorsOf, type Block, blocksOf, headingsOf, relativeLinksOf } from './support/markdown.ts';
import { putPrivateData } from './support/private-data.ts';
import { query, type SluiceProcess, startSluice } from './support/sluice.ts';
import { until } from './support/until.ts';

// README.md, CONTRIBUTING.md and docs/ must show the actual behaviour. The marks of their blocks:
//   sh        pasted into a shell, all blocks of a document into the same one
//   js        a separate program
//   nothing   the output of the block before it
//   json      the same; without a command, a sample that a test below compares
//   another   not run

const root = fileURLToPath(new URL('../..', import.meta.url));
const run = promisify(execFile);
const server = 'http://127.0.0.1:8000';
/** Separates the outputs of the blocks of one shell. */
const separator = '\u001e';

const names = ['README.md', 'CONTRIBUTING.md', ...(await readdir(join(root, 'docs'))).map((name) => `docs/${name}`)]
  .filter((name) => name.endsWith('.md'))
  .sort();
const documents = new Map(await Promise.all(names.map(async (name) => [name, await textOf(name)] as const)));

const dataDir = await mkdtemp(join(tmpdir(), 'docs-'));
const workFolder = await mkdtemp(join(tmpdir(), 'docs-work-'));
await putPrivateData(dataDir);
const sluice = await startSluice(['--data_dir', dataDir]);
t.teardown(async () => {
  await sluice.stop();
  for (const folder of [dataDir, workFolder]) await rm(folder, { recursive: true, force: true });
});

t.test('every command in the documents prints the output that they show', async (t) => {
  for (const [name, markdown] of documents) {
    const blocks = blocksOf(markdown);
    checkMarks(t, name, blocks);
    const commands = blocks.filter(({ language }) => language === 'sh');
    const outputs = await runCommands(commands, sluice);
    commands.forEach(({ line }, index) => {
      t.equal(plain(outputs[index] ?? ''), plain(outputOf(blocks, line)), `${name}:${line}`);
    });
    for (const { line, text } of blocks.filter(({ language }) => language === 'js')) {
      t.equal(await runProgram(text, sluice), outputOf(blocks, line), `${name}:${line}`);
    }
  }

  const readme = documents.get('README.md') ?? '';
  t.ok(blocksOf(readme).some(({ language }) => language === 'js'));
  t.ok(blocksOf(readme).some(({ language }) => language === 'sh'));

  const started = blocksOf(readme).find(({ text }) => text.startsWith('sluice listens on'));
  for (const line of started?.text.trimEnd().split('\n') ?? ['the README does not show what npm start prints']) {
    if (line.trim() !== '…') t.match(sluice.output(), line.replaceAll(server, sluice.url), 'npm start prints it');
  }
});

t.test('the line of the log in docs/operations.md has the members of the actual log', async (t) => {
  const { last } = await query(sluice.url, 'SELECT id, name, country FROM river WHERE id = 1');
  // The log is written after the answers.
  const line = await until(() =>
    sluice
      .log()
      .split('\n')
      .find((text) => text.includes('"query_settled"') && text.includes(last.id)),
  );
  const sample = blocksOf(documents.get('docs/operations.md') ?? '').find(({ language }) => language === 'json');
  t.strictSame(Object.keys(JSON.parse(sample?.text ?? '{}')), Object.keys(JSON.parse(line ?? '{}')));
});

t.test('the README can be read in two minutes', async (t) => {
  t.ok((documents.get('README.md') ?? '').split('\n').length <= 201);
});

t.test('every relative link leads to a file, and to a section if it names one', async (t) => {
  for (const [name, markdown] of documents) {
    for (const link of relativeLinksOf(markdown)) {
      const [path = '', anchor] = link.split('#');
      const target = path === '' ? name : join(dirname(name), path);
      t.ok(existsSync(join(root, target)), `${name}: ${link}`);
      if (anchor !== undefined) t.ok(anchorsOf(await textOf(target)).has(anchor), `${name}: ${link}`);
    }
  }
});

t.test('every document section that a comment names exists', async (t) => {
  const folder = join(root, 'src');
  const sources = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith('.ts'));
  let count = 0;
  for (const source of sources) {
    const text = await readFile(join(folder, source), 'utf8');
    for (const [, name = '', title] of text.matchAll(/\b(docs\/[\w-]+\.md)(?:, "([^"]+)")?/g)) {
      const markdown = documents.get(name) ?? '';
      t.not(markdown, '', `src/${source}: ${name}`);
      if (title !== undefined) t.ok(headingsOf(markdown).includes(title), `src/${source}: ${name}, "${title}"`);
      count++;
    }
  }
  t.ok(count >= 6);
});

t.test('every option, script and test that a document names exists', async (t) => {
  const { scripts } = JSON.parse(await textOf('package.json')) as { scripts: Record<string, string> };
  for (const [name, markdown] of documents) {
    // Options without an underscore may belong to another program.
    for (const [, option = ''] of markdown.matchAll(/--([a-z]+_[a-z_]*[a-z])\b/g)) {
      t.ok(option in options, `${name}: --${option}`);
    }
    for (const [, script = ''] of markdown.matchAll(/\bnpm run ([\w:-]+)/g))
      t.ok(script in scripts, `${name}: ${script}`);
    for (const [path] of markdown.matchAll(/\btest\/[\w/-]+\.test\.ts\b/g)) {
      t.ok(existsSync(join(root, path)), `${name}: ${path}`);
    }
  }
});

t.test('docs/performance.md has the table of bench/results/latest.json', async (t) => {
  // bench/ is a separate project, which is compiled next to this one.
  const { withSummary } = (await import(new URL('../bench/report.js', import.meta.url).href)) as {
    withSummary: (markdown: string, results: unknown) => string;
  };
  const results: unknown = JSON.parse(await textOf('bench/results/latest.json'));
  const markdown = documents.get('docs/performance.md') ?? '';
  t.equal(withSummary(markdown, results), markdown);
});

t.test('docs/architecture.md shows every folder of src/', async (t) => {
  const tree = blocksOf(documents.get('docs/architecture.md') ?? '').find(({ text }) => text.startsWith('src/\n'));
  const shown = [...(tree?.text ?? '').matchAll(/^ {2}(\w+)\/ /gm)].map(([, name]) => name);
  const entries = await readdir(join(root, 'src'), { withFileTypes: true });
  t.strictSame(
    shown.sort(),
    entries.filter((entry) => entry.isDirectory()).map(({ name }) => name),
  );
});

function textOf(name: string): Promise<string> {
  return readFile(join(root, name), 'utf8');
}

/** An unmarked block is an output. A block that is neither an output nor run has a mark. */
function checkMarks(t: Tap, name: string, blocks: readonly Block[]): void {
  blocks.forEach(({ language, line, isAdjacent }, index) => {
    const before = blocks[index - 1]?.language ?? '';
    if (language === '')
      t.ok(isAdjacent && ['sh', 'js'].includes(before), `${name}:${line} follows the block that prints it`);
  });
}

type Tap = Pick<typeof t, 'ok'>;

/** The block with the output of the block at the line; empty if there is none, because it prints nothing. */
function outputOf(blocks: readonly Block[], line: number): string {
  const next = blocks[blocks.findIndex((block) => block.line === line) + 1];
  return next?.isAdjacent && ['', 'json'].includes(next.language) ? next.text : '';
}

/** @returns the output of each block */
async function runCommands(commands: readonly Block[], { url }: SluiceProcess): Promise<readonly string[]> {
  if (commands.length === 0) return [];
  const script = commands.map(({ text }) => `${text}printf '${separator}'\n`).join('');
  // Some commands write files.
  const { stdout } = await run('sh', ['-c', script.replaceAll(server, url)], { cwd: workFolder });
  return stdout.split(separator);
}

async function runProgram(text: string, { url }: SluiceProcess): Promise<string> {
  const program = text.replaceAll(new URL(server).host, new URL(url).host);
  // A driver may keep its process alive.
  const args = ['--input-type=module', '--eval', `${program}process.exit();`];
  return (await run(process.execPath, args, { cwd: root })).stdout;
}

/** Removes ids and times, which differ between runs, and the line ends by which a document folds an answer. */
function plain(output: string): string {
  const text = output.replace(/[0-9a-f]{32,}/g, 'id').replace(/"running_time_ms":[\d.]+/g, '"running_time_ms":0');
  return text.startsWith('{"id"') ? text.replaceAll('\n', '') : text;
}
