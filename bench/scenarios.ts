import type { SluiceOptions } from './contenders/sluice.ts';
import type { ContenderName } from './contenders/start.ts';
import type { FigureName } from './figures.ts';
import type { TableName } from './tables.ts';
import type { Target } from './targets.ts';

/** What is measured, as data. */

interface ScenarioBase {
  readonly name: string;
  readonly title: string;
  /** Each round runs every contender once, in this order, so that all see the same weather. */
  readonly contenders: readonly ContenderName[];
  readonly rounds: number;
  /** The table that is read, if any is. */
  readonly table?: TableName;
  /** The figure by which the round in the middle is found. */
  readonly rankedBy: FigureName;
  readonly sluiceOptions?: SluiceOptions;
  /** Whether each round starts its contenders anew, because what is measured is how they grow. */
  readonly startAnew?: boolean;
  readonly targets: readonly Target[];
}

/** Whole tables, read and thrown away. */
export interface DownloadScenario extends ScenarioBase {
  readonly kind: 'download';
  readonly table: TableName;
  /** The client asks for gzip, and each contender that compresses does so at this level. */
  readonly gzipLevel?: number;
  /** Each contender takes part with each of them, by default once with a single table and client. */
  readonly variants?: readonly Variant[];
}

export interface Variant {
  /** What the lines of the table add to the contender's name. */
  readonly label: string;
  /** How many times over the table is read, as one result. */
  readonly times: number;
  /** How many clients do so at once. */
  readonly clients: number;
}

/** Many small statements, from a number of connections at once. */
export interface RequestsScenario extends ScenarioBase {
  readonly kind: 'requests';
  readonly sql: string;
  readonly connections: number;
  readonly seconds: number;
  readonly keptSessions: boolean;
}

/** A page that has been answered, asked for over and over. */
export interface PageAgainScenario extends ScenarioBase {
  readonly kind: 'page again';
  readonly table: TableName;
  readonly rowsPerPage: number;
  readonly seconds: number;
}

/** A page that is full long before its statement ends, so many times. */
export interface FirstPageScenario extends ScenarioBase {
  readonly kind: 'first page';
  readonly times: number;
}

/** Many requests that wait at once. */
export interface PollsScenario extends ScenarioBase {
  readonly kind: 'polls';
  readonly polls: number;
  readonly sessions: number;
  /** How long `SELECT 1` is repeated, alone and among the polls. */
  readonly seconds: number;
}

/** Pages at random places of one kept result, for several clients at once. */
export interface KeptPagesScenario extends ScenarioBase {
  readonly kind: 'kept pages';
  readonly table: TableName;
  /** How many times over the table is kept, as one result. */
  readonly times: number;
  readonly readers: number;
  readonly rowsPerPage: number;
  readonly seconds: number;
}

/** Files of kept results. Each contender takes part with each of the variants. */
export interface KeptFilesScenario extends ScenarioBase {
  readonly kind: 'kept files';
  readonly table: TableName;
  readonly variants: readonly FileVariant[];
}

export interface FileVariant {
  readonly label: string;
  readonly format: 'csv' | 'arrow' | 'parquet';
  /** How many times over the table is kept, as one result. */
  readonly times: number;
  /** Whether the file is asked for for the first time, and so has to be made. */
  readonly isFirst: boolean;
}

/** Pages at random places of many kept results, each read by a client of its own: alone, and while others are written. */
export interface KeptResultsScenario extends ScenarioBase {
  readonly kind: 'kept results';
  readonly table: TableName;
  readonly results: number;
  /** Of each of them. */
  readonly rows: number;
  readonly rowsPerPage: number;
  readonly writers: number;
  /** Of each result that they keep. */
  readonly writtenRows: number;
  /** How long is read, each time. */
  readonly seconds: number;
}

export type Scenario =
  | DownloadScenario
  | RequestsScenario
  | PageAgainScenario
  | FirstPageScenario
  | PollsScenario
  | KeptPagesScenario
  | KeptFilesScenario
  | KeptResultsScenario;

const keptPages = {
  kind: 'kept pages',
  table: 'mixed',
  times: 10,
  readers: 8,
  seconds: 5,
  contenders: ['sluice'],
  rounds: 3,
  rankedBy: 'p99Ms',
} as const;

export const scenarios: readonly Scenario[] = [
  {
    kind: 'download',
    name: 'download',
    title: '1,000,000 rows × 8 mixed columns',
    table: 'mixed',
    contenders: ['sluice', 'native client', 'floor', 'fastify whole', 'fastify pages'],
    rounds: 5,
    rankedBy: 'wallMs',
    targets: [
      { type: 'ratio', figure: 'wallMs', against: 'native client', atMost: 1.0 },
      { type: 'ratio', figure: 'wallMs', against: 'fastify whole', atMost: 0.25 },
      { type: 'ratio', figure: 'cpuMs', against: 'native client', atMost: 0.9 },
      { type: 'absolute', figure: 'peakBytes', atMost: 200_000_000 },
    ],
  },
  {
    kind: 'download',
    name: 'download-narrow',
    title: '5,000,000 rows × 2 integers',
    table: 'narrow',
    contenders: ['sluice', 'native client'],
    rounds: 5,
    rankedBy: 'wallMs',
    targets: [{ type: 'ratio', figure: 'wallMs', against: 'native client', atMost: 1.1 }],
  },
  {
    kind: 'download',
    name: 'download-text',
    title: '100,000 rows with a text of 4 KiB',
    table: 'texts',
    contenders: ['sluice', 'native client'],
    rounds: 5,
    rankedBy: 'wallMs',
    targets: [{ type: 'ratio', figure: 'wallMs', against: 'native client', atMost: 1.1 }],
  },
  {
    kind: 'download',
    name: 'download-blob',
    title: '500 rows with a blob of 1 MiB',
    table: 'blobs',
    contenders: ['sluice', 'native client'],
    rounds: 5,
    rankedBy: 'wallMs',
    targets: [{ type: 'ratio', figure: 'wallMs', against: 'native client', atMost: 1.1 }],
  },
  {
    kind: 'download',
    name: 'download-streamed',
    title: '1,000,000 rows × 8 mixed columns, as one body or kept on disk',
    table: 'mixed',
    contenders: ['sluice csv', 'sluice tsv', 'sluice ndjson', 'sluice arrow', 'sluice', 'sluice kept', 'native client'],
    rounds: 5,
    rankedBy: 'wallMs',
    targets: [
      ...(['sluice csv', 'sluice tsv', 'sluice ndjson'] as const).map((of) => ({
        ...{ type: 'ratio' as const, figure: 'wallMs' as const, of, against: 'native client' as const, atMost: 0.65 },
      })),
      { type: 'ratio', figure: 'wallMs', of: 'sluice arrow', against: 'native client', atMost: 0.55 },
      // The same statement was downloaded before, so its rows come in binary.
      { type: 'ratio', figure: 'wallMs', of: 'sluice', against: 'native client', atMost: 0.62 },
      { type: 'ratio', figure: 'wallMs', of: 'sluice kept', against: 'native client', atMost: 0.75 },
    ],
  },
  {
    kind: 'download',
    name: 'download-databend',
    title: "1,000,000 rows × 8 mixed columns, read by Databend's driver for Node",
    table: 'mixed',
    contenders: ['databend-driver json', 'databend-driver arrow', 'sluice', 'fastify whole'],
    rounds: 3,
    rankedBy: 'wallMs',
    targets: [
      // Most of the time goes into what the driver makes of the rows, while it keeps the server waiting.
      { type: 'ratio', of: 'databend-driver arrow', figure: 'wallMs', against: 'databend-driver json' },
      { type: 'ratio', of: 'databend-driver json', figure: 'cpuMs', against: 'fastify whole', atMost: 0.3 },
      { type: 'ratio', of: 'databend-driver arrow', figure: 'cpuMs', against: 'fastify whole', atMost: 0.3 },
    ],
  },
  {
    kind: 'download',
    name: 'download-gzip',
    title: '1,000,000 rows × 8 mixed columns, gzip level 1',
    table: 'mixed',
    gzipLevel: 1,
    sluiceOptions: { gzip_level: 1 },
    contenders: ['sluice', 'fastify whole'],
    rounds: 3,
    rankedBy: 'wallMs',
    targets: [
      { type: 'ratio', figure: 'wallMs', against: 'fastify whole', atMost: 0.6 },
      // Far less than compressing takes: the workers do that.
      { type: 'absolute', figure: 'mainCpuMs', atMost: 500 },
    ],
  },
  {
    kind: 'download',
    name: 'two-downloads',
    title: '1,000,000 rows × 8 mixed columns, by one client and by two at once, with two worker threads',
    table: 'mixed',
    contenders: ['sluice', 'native client'],
    variants: [
      { label: 'one', times: 1, clients: 1 },
      { label: 'two', times: 1, clients: 2 },
    ],
    rounds: 5,
    rankedBy: 'wallMs',
    sluiceOptions: { worker_threads: 2 },
    targets: [
      { type: 'ratio', figure: 'perSecond', of: 'sluice, two', against: 'sluice, one', atLeast: 1.6 },
      // The database needs cores as well: this is what they allow the least of its clients.
      { type: 'ratio', figure: 'perSecond', of: 'native client, two', against: 'native client, one' },
      { type: 'ratio', figure: 'databaseCpuMs', of: 'sluice, two', against: 'sluice, one' },
    ],
  },
  {
    kind: 'requests',
    name: 'select-1',
    title: 'SELECT 1, one connection',
    sql: 'SELECT 1',
    connections: 1,
    keptSessions: false,
    seconds: 3,
    contenders: ['sluice', 'floor', 'fastify whole'],
    rounds: 5,
    rankedBy: 'p50Ms',
    targets: [{ type: 'difference', figure: 'p50Ms', against: 'floor', atMost: 0.3 }],
  },
  {
    kind: 'requests',
    name: 'select-1-64',
    title: 'SELECT 1, 64 connections, each statement in a clean session',
    sql: 'SELECT 1',
    connections: 64,
    keptSessions: false,
    seconds: 3,
    contenders: ['sluice', 'fastify whole'],
    rounds: 5,
    rankedBy: 'perSecond',
    targets: [
      { type: 'ratio', figure: 'perSecond', against: 'fastify whole', atLeast: 1.0 },
      { type: 'ratio', figure: 'p99Ms', against: 'fastify whole', atMost: 1.0 },
    ],
  },
  {
    kind: 'requests',
    name: 'select-1-64-sessions',
    title: 'SELECT 1, 64 connections, each with a kept session',
    sql: 'SELECT 1',
    connections: 64,
    keptSessions: true,
    seconds: 3,
    contenders: ['sluice', 'fastify whole'],
    rounds: 5,
    rankedBy: 'perSecond',
    targets: [{ type: 'ratio', figure: 'perSecond', against: 'fastify whole', atLeast: 1.2 }],
  },
  {
    kind: 'requests',
    name: 'rows-100-64',
    title: '100 rows × 4 columns, 64 connections',
    table: 'mixed',
    sql: 'SELECT id, name, amount, day FROM mixed WHERE id BETWEEN 500001 AND 500100',
    connections: 64,
    keptSessions: false,
    seconds: 3,
    contenders: ['sluice', 'fastify whole'],
    rounds: 5,
    rankedBy: 'perSecond',
    targets: [{ type: 'ratio', figure: 'perSecond', against: 'fastify whole', atLeast: 1.3 }],
  },
  {
    kind: 'page again',
    name: 'page-again',
    title: 'a page of 10,000 rows × 8 mixed columns, asked for again',
    table: 'mixed',
    rowsPerPage: 10_000,
    seconds: 2,
    contenders: ['sluice'],
    rounds: 5,
    rankedBy: 'p50Ms',
    targets: [
      { type: 'absolute', figure: 'p50Ms', atMost: 2 },
      { type: 'absolute', figure: 'mainCpuMsPerRequest', atMost: 0.5 },
    ],
  },
  {
    ...keptPages,
    name: 'kept-pages-200',
    title: 'a page of 200 rows at a random place of 10,000,000 kept rows × 8 mixed columns, 8 clients',
    rowsPerPage: 200,
    targets: [
      { type: 'absolute', figure: 'p99Ms', atMost: 8 },
      { type: 'absolute', figure: 'mainCpuMsPerRequest', atMost: 0.5 },
    ],
  },
  {
    ...keptPages,
    name: 'kept-pages-10000',
    title: 'a page of 10,000 rows at a random place of 10,000,000 kept rows × 8 mixed columns, 8 clients',
    rowsPerPage: 10_000,
    targets: [
      { type: 'absolute', figure: 'p99Ms', atMost: 40 },
      { type: 'absolute', figure: 'mainCpuMsPerRequest', atMost: 0.5 },
    ],
  },
  {
    kind: 'kept files',
    name: 'kept-files',
    title: 'files of 1,000,000 kept rows × 8 mixed columns',
    table: 'mixed',
    contenders: ['sluice'],
    // What Parquet takes of memory is not to be that of the other files.
    startAnew: true,
    variants: [
      { label: 'csv', format: 'csv', times: 1, isFirst: true },
      { label: 'csv again', format: 'csv', times: 1, isFirst: false },
      { label: 'arrow', format: 'arrow', times: 1, isFirst: true },
      { label: 'parquet', format: 'parquet', times: 1, isFirst: true },
      { label: 'parquet of 4,000,000 rows', format: 'parquet', times: 4, isFirst: true },
    ],
    rounds: 3,
    rankedBy: 'wallMs',
    targets: [
      { type: 'absolute', figure: 'bytesPerSecond', of: 'sluice, csv again', atLeast: 500_000_000 },
      { type: 'ratio', figure: 'wallMs', of: 'sluice, parquet', against: 'sluice, csv', atMost: 6 },
      {
        ...{ type: 'ratio', figure: 'peakBytes', of: 'sluice, parquet of 4,000,000 rows' },
        ...{ against: 'sluice, parquet', atMost: 1.1 },
      },
    ],
  },
  {
    kind: 'kept results',
    name: 'kept-100',
    title:
      'pages of 200 rows at random places of 100 kept results, 100 clients, while 10 others keep 200,000 rows each',
    table: 'mixed',
    results: 100,
    rows: 50_000,
    rowsPerPage: 200,
    writers: 10,
    writtenRows: 200_000,
    seconds: 60,
    contenders: ['sluice'],
    rounds: 1,
    rankedBy: 'pageP99BesideMs',
    targets: [
      { type: 'absolute', figure: 'pageP99Ratio', atMost: 2 },
      { type: 'absolute', figure: 'memoryGrowth', atMost: 1.1 },
    ],
  },
  {
    kind: 'polls',
    name: 'polls-10000',
    title: '10,000 polls that wait at once, and 100 statements that end at once',
    polls: 10_000,
    sessions: 100,
    seconds: 4,
    contenders: ['sluice'],
    startAnew: true,
    rounds: 3,
    rankedBy: 'wakeP99Ms',
    sluiceOptions: {
      http_connections_max: 11_000,
      queries_max: 20_000,
      queries_per_user_max: 20_000,
      unread_per_user_max: 20_000,
      sessions_max: 200,
      sessions_per_user_max: 200,
      session_queue_max: 100,
      connections_max: 300,
      connections_per_user_max: 300,
      wait_time_secs_max: 300,
      http_idle_secs: 600,
    },
    targets: [
      { type: 'absolute', figure: 'bytesPerPoll', atMost: 8_192 },
      { type: 'absolute', figure: 'wakeP99Ms', atMost: 50 },
      { type: 'absolute', figure: 'p99AmongPollsRatio', atMost: 2 },
    ],
  },
  {
    kind: 'download',
    name: 'growth',
    title: '1, 2, 4 and 8 million rows × 8 mixed columns',
    table: 'mixed',
    contenders: ['sluice'],
    startAnew: true,
    variants: [1, 2, 4, 8].map((times) => ({ label: `${times},000,000 rows`, times, clients: 1 })),
    rounds: 3,
    rankedBy: 'wallMs',
    targets: [
      { type: 'spread', figure: 'perSecond', atMost: 1.1 },
      { type: 'spread', figure: 'peakBytes', atMost: 1.1 },
    ],
  },
  {
    kind: 'first page',
    name: 'first-page',
    title: 'a page of one row, full ten seconds before the statement ends',
    times: 50,
    contenders: ['sluice'],
    rounds: 3,
    rankedBy: 'p99Ms',
    targets: [{ type: 'absolute', figure: 'p99Ms', atMost: 10 }],
  },
];
