import type { DatabaseServer } from '../test/support/servers.ts';
import type { Contender } from './contenders/contender.ts';
import { Sluice } from './contenders/sluice.ts';
import { startContender } from './contenders/start.ts';
import type { Measurement } from './figures.ts';
import { measureDownload } from './measure/download.ts';
import { measureFirstPage } from './measure/first-page.ts';
import { measureKeptFile } from './measure/kept-file.ts';
import { measureKeptPages } from './measure/kept-pages.ts';
import { measureKeptResults } from './measure/kept-results.ts';
import { measurePageAgain } from './measure/page-again.ts';
import { measurePolls } from './measure/polls.ts';
import { withUsage } from './measure/usage.ts';
import type { Scenario } from './scenarios.ts';
import type { ServerProcess } from './server-process.ts';
import { judge, type Verdict } from './targets.ts';

/** All rounds of each line of the table. */
type Measurements = Map<string, Measurement[]>;

export interface Result {
  readonly scenario: string;
  readonly title: string;
  /** By the contender's name, with its variant's label if there is one: the round in the middle. */
  readonly table: Readonly<Record<string, Measurement>>;
  readonly verdicts: readonly Verdict[];
}

const warmUpThemselves: ReadonlySet<Scenario['kind']> = new Set(['polls', 'kept pages', 'kept results']);

/** Who takes part, by the name that the table gives it. */
export type Field = ReadonlyMap<string, () => Promise<Contender>>;

/** Runs all contenders of a scenario in turn (A B A B …), in several rounds. */
export async function compete(scenario: Scenario, database: DatabaseServer): Promise<Result> {
  const field = new Map(
    scenario.contenders.map((name) => [name as string, () => startContender(name, database, scenario)]),
  );
  const table = await measureAll(scenario, field, database);
  const verdicts = scenario.targets.map((target) => judge(target, table));
  return { scenario: scenario.name, title: scenario.title, table: Object.fromEntries(table), verdicts };
}

/**
 * Runs Sluice in a scenario on several lines of Node, in turn.
 * @param nodes the paths of their binaries, by version
 */
export async function compareNodes(
  scenario: Scenario,
  nodes: ReadonlyMap<string, string>,
  database: DatabaseServer,
): Promise<Result> {
  const field = new Map(
    [...nodes].map(([version, node]) => [version, () => Sluice.start(database, scenario.sluiceOptions, [], node)]),
  );
  const table = await measureAll(scenario, field, database);
  return { scenario: scenario.name, title: scenario.title, table: Object.fromEntries(table), verdicts: [] };
}

async function measureAll(
  scenario: Scenario,
  field: Field,
  database: DatabaseServer,
): Promise<Map<string, Measurement>> {
  const measurements: Measurements = new Map();
  if (scenario.startAnew) {
    for (let round = 0; round < scenario.rounds; round++) await play(scenario, field, 1, database, measurements);
  } else {
    await play(scenario, field, scenario.rounds, database, measurements);
  }
  return new Map([...measurements].map(([label, all]) => [label, median(scenario, all)]));
}

async function play(
  scenario: Scenario,
  field: Field,
  rounds: number,
  database: DatabaseServer,
  measurements: Measurements,
): Promise<void> {
  const contenders = new Map<string, Contender>();
  try {
    for (const [name, start] of field) contenders.set(name, await start());
    const parts = partsOf(scenario, database);
    // Once without counting, as a server runs for longer than it takes to be compiled, and reads a large result in another way the
    // second time.
    const warmUps = warmUpThemselves.has(scenario.kind) ? 0 : 1;
    for (let round = -warmUps; round < rounds; round++) {
      for (const [name, contender] of contenders) {
        for (const { label, measure } of parts) {
          const measurement = await measure(contender);
          if (round < 0) continue;
          const line = label === '' ? name : `${name}, ${label}`;
          measurements.set(line, [...(measurements.get(line) ?? []), measurement]);
        }
      }
    }
  } finally {
    for (const contender of contenders.values()) await contender[Symbol.asyncDispose]();
  }
}

/** What is measured of each contender in a round, and what the lines of the table add to the contender's name. */
export interface Part {
  readonly label: string;
  measure(contender: Contender): Promise<Measurement>;
}

export function partsOf(scenario: Scenario, database: DatabaseServer): readonly Part[] {
  const whole = (work: (contender: Contender) => Promise<Measurement>, label = ''): Part => ({
    label,
    measure: (contender) => withUsage(contender.process, database, () => work(contender)),
  });
  switch (scenario.kind) {
    case 'download': {
      const { variants = [{ label: '', times: 1, clients: 1 }] } = scenario;
      return variants.map((variant) => whole((c) => measureDownload(scenario, variant, c), variant.label));
    }
    case 'requests':
      return [whole((contender) => contender.repeat(scenario))];
    case 'page again':
      return [whole((contender) => measurePageAgain(scenario, sluiceOf(contender)))];
    case 'first page':
      return [whole((contender) => measureFirstPage(scenario, sluiceOf(contender)))];
    case 'polls':
      return [whole((contender) => measurePolls(scenario, sluiceOf(contender), database))];
    // These keep results first, which is not counted.
    case 'kept pages':
      return [{ label: '', measure: (contender) => measureKeptPages(scenario, sluiceOf(contender), database) }];
    case 'kept files':
      return scenario.variants.map((variant) => ({
        label: variant.label,
        measure: (contender) => measureKeptFile(scenario, variant, sluiceOf(contender), database),
      }));
    case 'kept results':
      return [{ label: '', measure: (contender) => measureKeptResults(scenario, sluiceOf(contender), database) }];
  }
}

function sluiceOf(contender: Contender): ServerProcess {
  if (!(contender instanceof Sluice)) throw new Error('only Sluice takes part in this');
  return contender.process;
}

/** The round in the middle: its figures belong together. */
function median({ rankedBy }: Scenario, measurements: readonly Measurement[]): Measurement {
  const rank = (measurement: Measurement): number => measurement[rankedBy] ?? Number.NaN;
  return [...measurements].sort((a, b) => rank(a) - rank(b))[Math.floor(measurements.length / 2)] as Measurement;
}
