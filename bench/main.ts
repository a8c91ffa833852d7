/**
 * Runs the scenarios, or those named on the command line, and prints a table for each and one of all targets. A run of all
 * writes `bench/results/latest.json`; `--docs` runs nothing, and puts that file's targets into docs/performance.md. `--node`, with
 * the path of a binary, runs Sluice alone, on each that is given.
 */

import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import { parseArgs } from 'node:util';
import type { DatabaseServer } from '../test/support/servers.ts';
import { compareNodes, compete, type Result } from './compete.ts';
import { startDatabase } from './database.ts';
import { type Results, summaryOf, tableOf, withSummary } from './report.ts';
import { scenarios } from './scenarios.ts';

const resultsFile = new URL('../../bench/results/latest.json', import.meta.url);
const documentFile = new URL('../../docs/performance.md', import.meta.url);

async function main(): Promise<void> {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { docs: { type: 'boolean' }, node: { type: 'string', multiple: true, default: [] } },
  });
  if (values.docs) updateDocument();
  else await run(positionals, values.node);
}

async function run(names: readonly string[], nodes: readonly string[]): Promise<void> {
  const unknown = names.find((name) => !scenarios.some((scenario) => scenario.name === name));
  if (unknown !== undefined) {
    throw new Error(`no scenario '${unknown}'; there are ${scenarios.map(({ name }) => name).join(', ')}`);
  }
  const chosen = scenarios.filter(
    ({ name, contenders }) =>
      (names.length === 0 || names.includes(name)) && (nodes.length === 0 || contenders.includes('sluice')),
  );
  const versions = new Map(
    nodes.map((node) => [`Node ${execFileSync(node, ['--version'], { encoding: 'utf8' }).trim()}`, node]),
  );
  const database = await startDatabase(new Set(chosen.flatMap(({ table }) => table ?? [])));
  try {
    const results: Result[] = [];
    for (const scenario of chosen) {
      try {
        const result = await (nodes.length > 0
          ? compareNodes(scenario, versions, database)
          : compete(scenario, database));
        results.push(result);
        process.stdout.write(`\n${tableOf(result)}\n`);
      } catch (error) {
        // The others may still tell something.
        fail(`${scenario.name}: ${(error as Error).message}`);
      }
    }
    if (nodes.length > 0) return;
    const all = { ...conditions(database), results };
    process.stdout.write(`\n${summaryOf(all)}\n`);
    // Figures of different runs do not belong together, so that only a whole run is kept.
    if (results.length === scenarios.length) keep(all);
  } finally {
    await database.stop();
  }
}

function conditions({ kind, version }: DatabaseServer): Omit<Results, 'results'> {
  const machine = {
    cpu: cpus()[0]?.model ?? 'an unknown CPU',
    cores: cpus().length,
    memoryBytes: totalmem(),
    node: process.version,
  };
  return { machine, database: `${kind} ${version}` };
}

function keep(results: Results): void {
  mkdirSync(new URL('.', resultsFile), { recursive: true });
  writeFileSync(resultsFile, `${JSON.stringify(results, null, 2)}\n`);
}

function updateDocument(): void {
  const results = JSON.parse(readFileSync(resultsFile, 'utf8')) as Results;
  writeFileSync(documentFile, withSummary(readFileSync(documentFile, 'utf8'), results));
}

function fail(message: string): void {
  process.stderr.write(`bench: ${message}\n`);
  process.exitCode = 1;
}

main().catch((error: unknown) => fail((error as Error).message));
