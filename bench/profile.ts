/**
 * Runs one scenario against Sluice alone under V8's profiler, and leaves in `.cache/profile/<scenario>` a profile and a
 * flame graph of each thread. Prints which functions of each took most time themselves.
 *
 * 0x also starts programs itself, with `node --prof`. That makes a log per thread, of which 0x takes whichever it finds
 * first, and it ends the program by an exit in its first signal handler. So the profiles are V8's own (`--cpu-prof`), those
 * of main as those of the workers, and 0x draws them. npx brings 0x when it is needed: it would be a third of the packages
 * that a clone installs.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import type { Profiler, Runtime } from 'node:inspector';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { partsOf } from './compete.ts';
import { Sluice } from './contenders/sluice.ts';
import { startDatabase } from './database.ts';
import { type Scenario, scenarios } from './scenarios.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const functionsShown = 10;
const flameGraphPackage = '0x@6.0.0';

async function main([name]: readonly string[]): Promise<void> {
  const scenario = scenarios.find((scenario) => scenario.name === name);
  if (scenario === undefined) {
    throw new Error(`name a scenario: npm run profile -- ${scenarios.map(({ name }) => name).join(' | ')}`);
  }
  const folder = join(root, '.cache/profile', scenario.name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  await run(scenario, folder);
  for (const thread of nameProfiles(folder)) {
    const profile = join(folder, `${thread}.cpuprofile`);
    const graph = join(folder, `${thread}.html`);
    draw(profile, graph, `${scenario.name}, ${thread}`);
    process.stdout.write(`\n${thread}: ${summaryOf(JSON.parse(readFileSync(profile, 'utf8')))}\n${graph}\n`);
  }
}

async function run(scenario: Scenario, folder: string): Promise<void> {
  const database = await startDatabase(scenario.table === undefined ? [] : [scenario.table]);
  try {
    await using sluice = await Sluice.start(database, scenario.sluiceOptions, [
      '--cpu-prof',
      `--cpu-prof-dir=${folder}`,
    ]);
    const rounds = scenario.startAnew ? 1 : scenario.rounds;
    for (let round = 0; round < rounds; round++) {
      for (const part of partsOf(scenario, database)) await part.measure(sluice);
    }
  } finally {
    await database.stop();
  }
}

/** Node names a profile CPU.<date>.<time>.<process>.<thread>.<number>.cpuprofile; the main thread is number 0. */
function nameProfiles(folder: string): string[] {
  const threadOf = (file: string): number => Number(file.split('.')[4]);
  const files = readdirSync(folder).sort((a, b) => threadOf(a) - threadOf(b));
  return files.map((file, index) => {
    const thread = index === 0 ? 'main' : `worker-${index}`;
    renameSync(join(folder, file), join(folder, `${thread}.cpuprofile`));
    return thread;
  });
}

function draw(profile: string, graph: string, title: string): void {
  const options = ['--quiet', '--title', title, '--output-html', graph, '--visualize-cpu-profile', profile];
  const { status, stderr } = spawnSync('npx', ['--yes', flameGraphPackage, ...options], {
    cwd: root,
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`0x drew no flame graph of ${profile}: ${stderr}`);
}

/** How long the thread was busy, and below it a line for each function that took most of that time itself. */
function summaryOf({ nodes, samples = [], timeDeltas = [] }: Profiler.Profile): string {
  const places = new Map(nodes.map(({ id, callFrame }) => [id, placeOf(callFrame)]));
  const selfUs = new Map<string, number>();
  let allUs = 0;
  for (const [index, id] of samples.entries()) {
    const place = places.get(id) as string;
    const us = timeDeltas[index + 1] ?? 0;
    allUs += us;
    if (place !== '(idle)') selfUs.set(place, (selfUs.get(place) ?? 0) + us);
  }
  const busyUs = [...selfUs.values()].reduce((sum, us) => sum + us, 0);
  const most = [...selfUs].sort(([, a], [, b]) => b - a).slice(0, functionsShown);
  return [
    `busy for ${(busyUs / 1e6).toFixed(2)} s of ${(allUs / 1e6).toFixed(2)} s`,
    ...most.map(([place, us]) => `${((us / busyUs) * 100).toFixed(1).padStart(6)} %  ${place}`),
  ].join('\n');
}

/** What has no file is native, or what V8 does itself: (program) is native code that no function called. */
function placeOf({ functionName, url, lineNumber }: Runtime.CallFrame): string {
  const name = functionName === '' ? '(anonymous)' : functionName;
  if (url === '') return name;
  const file = url.startsWith('file:') ? relative(root, fileURLToPath(url)) : url;
  return `${name} ${file}:${lineNumber + 1}`;
}

main(process.argv.slice(2)).catch((error: unknown) => {
  process.stderr.write(`profile: ${(error as Error).message}\n`);
  process.exitCode = 1;
});
