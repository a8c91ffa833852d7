/**
 * Runs the scenarios, or those named on the command line, and prints a table for each. A run of all writes the figures to
 * `bench/results/latest.json`.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import { type DatabaseServer, startServer } from '../test/support/servers.ts';
import { type Contender, type Measurement, setUp, startContender } from './contenders.ts';
import { type ContenderName, type Scenario, scenarios, tables } from './scenarios.ts';

type Figures = Partial<Record<ContenderName, Measurement>>;

interface Result {
  readonly scenario: string;
  readonly title: string;
  /** The median of each figure over the rounds. */
  readonly figures: Figures;
  readonly targets: readonly { readonly target: string; readonly ratio: number; readonly met: boolean }[];
}

const resultsFile = new URL('../../bench/results/latest.json', import.meta.url);

async function main(names: readonly string[]): Promise<void> {
  const unknown = names.find((name) => !scenarios.some((scenario) => scenario.name === name));
  if (unknown !== undefined) {
    throw new Error(`no scenario '${unknown}'; there are ${scenarios.map(({ name }) => name).join(', ')}`);
  }
  const chosen = scenarios.filter(({ name }) => names.length === 0 || names.includes(name));
  const server = await startServer('mariadb');
  try {
    await server.sql(setUp);
    await load(server, chosen);
    const results: Result[] = [];
    for (const scenario of chosen) {
      const result = await compete(scenario, server);
      results.push(result);
      process.stdout.write(report(result));
    }
    // Figures of different runs do not belong together, so that only a whole run is kept.
    if (chosen.length === scenarios.length) keep(results, server);
  } finally {
    await server.stop();
  }
}

function keep(results: readonly Result[], server: DatabaseServer): void {
  mkdirSync(new URL('.', resultsFile), { recursive: true });
  const machine = { cpu: cpus()[0]?.model, cores: cpus().length, memoryBytes: totalmem(), node: process.version };
  const database = `${server.kind} ${server.version}`;
  writeFileSync(resultsFile, `${JSON.stringify({ machine, database, results }, null, 2)}\n`);
}

async function load(server: DatabaseServer, chosen: readonly Scenario[]): Promise<void> {
  for (const [name, { columns, values, rows }] of Object.entries(tables)) {
    if (!chosen.some((scenario) => scenario.kind === 'download' && scenario.table === name)) continue;
    await server.sql(
      `CREATE TABLE ${name} (${columns}, PRIMARY KEY (id)); INSERT INTO ${name} SELECT ${values} FROM seq_1_to_${rows}`,
      { database: 'bench' },
    );
    // Once through, so that the first contender finds the rows in memory as the others do.
    await server.sql(`SELECT COUNT(*), SUM(CRC32(id)) FROM ${name}`, { database: 'bench' });
  }
}

async function compete(scenario: Scenario, server: DatabaseServer): Promise<Result> {
  const rounds = new Map<ContenderName, Measurement[]>();
  const contenders = new Map<ContenderName, Contender>();
  try {
    for (const name of scenario.contenders) contenders.set(name, await startContender(name, server));
    for (let round = 0; round < scenario.rounds; round++) {
      for (const [name, contender] of contenders) {
        const measurements = rounds.get(name) ?? [];
        measurements.push(await contender.run(scenario));
        rounds.set(name, measurements);
      }
    }
  } finally {
    for (const contender of contenders.values()) await contender[Symbol.asyncDispose]();
  }
  const figures: Figures = {};
  for (const [name, measurements] of rounds) figures[name] = median(measurements);
  return { scenario: scenario.name, title: scenario.title, figures, targets: judge(scenario, figures) };
}

/** The round in the middle by wall time, or by rate: its figures belong together. */
function median(measurements: readonly Measurement[]): Measurement {
  const key = (m: Measurement): number => m.perSecond ?? m.wallMs;
  return [...measurements].sort((a, b) => key(a) - key(b))[Math.floor(measurements.length / 2)] as Measurement;
}

function judge(scenario: Scenario, figures: Figures): Result['targets'] {
  return scenario.targets.map(({ figure, against, atMost, atLeast }) => {
    const ratio = (figures.sluice?.[figure] ?? Number.NaN) / (figures[against]?.[figure] ?? Number.NaN);
    const bound = atMost === undefined ? `≥ ${atLeast}` : `≤ ${atMost}`;
    const met = ratio <= (atMost ?? Number.POSITIVE_INFINITY) && ratio >= (atLeast ?? 0);
    return { target: `${figure} ${bound} × ${against}`, ratio, met };
  });
}

function report({ scenario, title, figures, targets }: Result): string {
  const lines = [`\n${scenario}: ${title}`];
  const show = (value: number | undefined, digits: number, unit: string): string =>
    value === undefined ? '' : `${value.toFixed(digits)} ${unit}`;
  lines.push(
    '| | wall | CPU | database CPU | peak memory | per second | p50 | p99 |',
    '|---|---|---|---|---|---|---|---|',
  );
  for (const [name, m] of Object.entries(figures)) {
    const peak = m.peakBytes === undefined ? undefined : m.peakBytes / 1024 / 1024;
    lines.push(
      `| ${[
        name,
        show(m.wallMs / 1_000, 2, 's'),
        show(m.cpuMs === undefined ? undefined : m.cpuMs / 1_000, 2, 's'),
        show(m.databaseCpuMs === undefined ? undefined : m.databaseCpuMs / 1_000, 2, 's'),
        show(peak, 0, 'MiB'),
        show(m.perSecond, 0, ''),
        show(m.p50Ms, 3, 'ms'),
        show(m.p99Ms, 2, 'ms'),
      ].join(' | ')} |`,
    );
  }
  for (const { target, ratio, met } of targets) lines.push(`${met ? 'met ' : 'MISS'} ${target}: ${ratio.toFixed(2)}`);
  return `${lines.join('\n')}\n`;
}

main(process.argv.slice(2)).catch((error: unknown) => {
  process.stderr.write(`bench: ${(error as Error).message}\n`);
  process.exitCode = 1;
});
