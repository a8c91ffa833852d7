import type { Result } from './compete.ts';
import { type FigureName, figures, type Measurement } from './figures.ts';

/** What stands in `results/latest.json`. */
export interface Results {
  readonly machine: {
    readonly cpu: string;
    readonly cores: number;
    readonly memoryBytes: number;
    readonly node: string;
  };
  readonly database: string;
  readonly results: readonly Result[];
}

/** A scenario's figures as a table with a line for each contender, and what became of its targets. */
export function tableOf({ scenario, title, table, verdicts }: Result): string {
  const lines = Object.entries(table);
  const names = (Object.keys(figures) as FigureName[]).filter((name) => lines.some(([, m]) => m[name] !== undefined));
  const rows = [['', ...names.map((name) => figures[name].title), 'CPU by thread, s']];
  for (const [label, measurement] of lines) {
    const cells = names.map((name) => show(name, measurement[name]));
    rows.push([label, ...cells, threads(measurement)]);
  }
  const judged = verdicts.map(({ target, measured, compared, met }) => {
    const verdict = met === null ? 'also' : met ? 'met ' : 'MISS';
    return `${verdict} ${target}: ${compared || measured}`;
  });
  return [`${scenario}: ${title}`, ...markdown(rows), ...judged].join('\n');
}

/** All targets in one table, with the machine named. */
export function summaryOf({ machine, database, results }: Results): string {
  const { cpu, cores, memoryBytes, node } = machine;
  const rows = [['scenario', 'target', 'measured', 'against', 'compared', 'met']];
  for (const { scenario, verdicts } of results) {
    for (const { target, measured, against, compared, met } of verdicts) {
      rows.push([scenario, target, measured, against, compared, met === null ? '' : met ? 'yes' : '**no**']);
    }
  }
  const memory = `${Math.round(memoryBytes / 1_000_000_000)} GB`;
  return [`Measured on ${cpu}, ${cores} cores, ${memory}, Node ${node}, ${database}.`, '', ...markdown(rows)].join(
    '\n',
  );
}

const markers = [
  '<!-- from bench/results/latest.json: npm run bench -- --docs -->',
  '<!-- end of the table -->',
] as const;

/** @returns the text with the summary between its two marker comments */
export function withSummary(document: string, results: Results): string {
  const [begin, end] = markers.map((marker) => document.indexOf(marker)) as [number, number];
  if (begin < 0 || end < begin) throw new Error(`docs/performance.md lacks the two comments ${markers.join(' and ')}`);
  return `${document.slice(0, begin + markers[0].length)}\n\n${summaryOf(results)}\n\n${document.slice(end)}`;
}

function show(name: FigureName, value: number | undefined): string {
  return value === undefined ? '' : figures[name].show(value);
}

function threads({ threadsCpuMs = {} }: Measurement): string {
  return Object.entries(threadsCpuMs)
    .map(([thread, ms]) => `${thread} ${(ms / 1_000).toFixed(2)}`)
    .join(', ');
}

function markdown([head = [], ...rows]: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(head), `|${'---|'.repeat(head.length)}`, ...rows.map(line)];
}
