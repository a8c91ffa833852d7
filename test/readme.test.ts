import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { query, startSluice } from './support/sluice.ts';

const readme = await readFile(new URL('../../README.md', import.meta.url), 'utf8');
const run = promisify(execFile);

/** The fenced blocks in order, with the language that each is marked with. */
const blocks = [...readme.matchAll(/^```(\w*)\n(.*?)^```$/gms)].map(([, language = '', text = '']) => ({
  language,
  text,
}));

t.test('the flow of the README, pasted into a shell, prints what the README shows', async (t) => {
  const dataDir = await mkdtemp(join(tmpdir(), 'readme-'));
  const sluice = await startSluice(['--data_dir', dataDir]);
  t.teardown(async () => {
    await sluice.stop();
    await rm(dataDir, { recursive: true, force: true });
  });
  const pasted = blocks.filter(({ language }) => language === 'sh');
  const shown = blocks.filter((_, index) => blocks[index - 1]?.language === 'sh');
  t.ok(pasted.length >= 2, 'there are commands to paste');
  const script = pasted.map(({ text }) => text).join('');
  t.match(script, 'http://127.0.0.1:8000', 'they are for the port that npm start listens on');
  const { stdout } = await run('sh', ['-c', script.replaceAll('http://127.0.0.1:8000', sluice.url)]);
  t.equal(stdout, shown.map(({ text }) => text).join(''));

  const at = blocks.findIndex(({ language }) => language === 'js');
  const program = blocks[at]?.text.replaceAll('127.0.0.1:8000', new URL(sluice.url).host) ?? '';
  const root = fileURLToPath(new URL('../..', import.meta.url));
  // The driver keeps its process alive.
  const args = ['--input-type=module', '--eval', `${program}process.exit();`];
  t.equal((await run(process.execPath, args, { cwd: root })).stdout, blocks[at + 1]?.text);

  const sample = blocks.find(({ language }) => language === 'json')?.text ?? '';
  const { pages } = await query(sluice.url, 'SELECT id, name, country FROM river WHERE id = 1');
  t.equal(
    withoutChance(sample.replaceAll('\n', '')),
    withoutChance(pages[0]?.text ?? ''),
    'the whole answer is as shown',
  );

  const listed = /try it:\n((?: {2}curl .*\n){3})/.exec(sluice.output())?.[1] ?? '';
  t.match(readme.replaceAll('http://127.0.0.1:8000', sluice.url), listed.split('\n')[0] ?? 'nothing was printed');
});

/** Leaves out what differs from run to run: ids and times. */
function withoutChance(answer: string): string {
  return answer.replace(/[0-9a-f]{32,}/g, 'id').replace(/"running_time_ms":[\d.]+/, '"running_time_ms":0');
}
