/** What is measured, as data. `main.ts` runs it; `contenders.ts` knows who takes part. */

export type ContenderName = 'sluice' | 'native client' | 'floor' | 'fastify whole' | 'fastify pages';

/** What a ratio is between, and the most or the least that it may be. */
export interface Target {
  readonly figure: 'wallMs' | 'cpuMs' | 'p50Ms' | 'p99Ms' | 'perSecond';
  readonly against: ContenderName;
  readonly atMost?: number;
  readonly atLeast?: number;
}

interface ScenarioBase {
  readonly name: string;
  readonly title: string;
  /** Each round runs every contender once, in this order, so that all see the same weather. */
  readonly contenders: readonly ContenderName[];
  readonly rounds: number;
  readonly targets: readonly Target[];
}

/** One client reads a whole result and throws it away. */
export interface DownloadScenario extends ScenarioBase {
  readonly kind: 'download';
  readonly table: TableName;
  readonly rows: number;
}

/** Many small statements, from a number of connections at once. */
export interface RequestsScenario extends ScenarioBase {
  readonly kind: 'requests';
  readonly sql: string;
  readonly connections: number;
  readonly seconds: number;
}

export type Scenario = DownloadScenario | RequestsScenario;

export const scenarios: readonly Scenario[] = [
  {
    kind: 'download',
    name: 'download',
    title: '1,000,000 rows × 8 mixed columns',
    table: 'mixed',
    rows: 1_000_000,
    contenders: ['sluice', 'native client', 'floor', 'fastify whole', 'fastify pages'],
    rounds: 3,
    targets: [
      { figure: 'wallMs', against: 'native client', atMost: 1.0 },
      { figure: 'wallMs', against: 'fastify whole', atMost: 0.25 },
      { figure: 'cpuMs', against: 'native client', atMost: 0.9 },
    ],
  },
  {
    kind: 'requests',
    name: 'select-1',
    title: 'SELECT 1, one connection',
    sql: 'SELECT 1',
    connections: 1,
    seconds: 3,
    contenders: ['sluice', 'floor', 'fastify whole'],
    rounds: 3,
    targets: [],
  },
  {
    kind: 'requests',
    name: 'select-1-64',
    title: 'SELECT 1, 64 connections, each statement in a clean session',
    sql: 'SELECT 1',
    connections: 64,
    seconds: 3,
    contenders: ['sluice', 'fastify whole'],
    rounds: 3,
    targets: [
      { figure: 'perSecond', against: 'fastify whole', atLeast: 1.0 },
      { figure: 'p99Ms', against: 'fastify whole', atMost: 1.0 },
    ],
  },
];

export type TableName = keyof typeof tables;

/** The tables, filled by the row's number alone, so that every run reads the same bytes. */
export const tables = {
  mixed: {
    columns: `id INT UNSIGNED NOT NULL, account BIGINT NOT NULL, amount DECIMAL(12,2) NOT NULL, ratio DOUBLE,
      name VARCHAR(40) NOT NULL, note VARCHAR(80), day DATE NOT NULL, at DATETIME(3) NOT NULL`,
    values: `seq, seq * 7919 % 9007199254740993, seq * 37 % 1000000 / 100, IF(seq % 11 = 0, NULL, seq / 13),
      CONCAT('name ', LEFT(SHA1(seq), 12)), IF(seq % 7 = 0, NULL, CONCAT('ground – ', MD5(seq))),
      DATE_ADD('2000-01-01', INTERVAL seq % 9000 DAY), DATE_ADD('2020-01-01 00:00:00.123', INTERVAL seq SECOND)`,
    rows: 1_000_000,
  },
} as const;
