// The ordinary clients beside whatever a fault test does: they run small statements all the time, check what they get, and
// note how long it took.

import { setTimeout as delay } from 'node:timers/promises';
import { figure } from './form.ts';
import { get, post, type RequestOptions } from './sluice.ts';

/** A window of time, in milliseconds of each answer. */
export interface Window {
  readonly count: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

export interface Traffic {
  /** Runs for so many windows of so many milliseconds, and says what each was like. */
  windows(count: number, ms: number): Promise<Window[]>;
  /** The faults so far. */
  readonly wrong: readonly string[];
  /** How many statements have had their answers. */
  readonly count: number;
  /** Ends the clients, when each has its answer. */
  stop(): Promise<void>;
}

export interface TrafficOptions {
  readonly login?: RequestOptions;
  readonly clients?: number;
  /** How long a client rests between two statements. */
  readonly restMs?: number;
}

const hundredRows = `SELECT a.d * 10 + b.d FROM ${['a', 'b']
  .map((name) => `(${Array.from({ length: 10 }, (_, digit) => `SELECT ${digit} AS d`).join(' UNION ALL ')}) ${name}`)
  .join(', ')}`;

/** Starts clients that ask for one row and for 100 rows in turn. */
export function startTraffic(url: string, options: TrafficOptions = {}): Traffic {
  const { login = {}, clients = 4, restMs = 5 } = options;
  const wrong: string[] = [];
  let latenciesMs: number[] = [];
  let count = 0;
  let isStopped = false;
  const client = async (number: number): Promise<void> => {
    for (let step = number; !isStopped; step++) {
      const [sql, rows] = step % 2 === 0 ? [`SELECT ${step}`, 1] : [hundredRows, 100];
      const sentMs = performance.now();
      try {
        const reply = await post(url, { sql, pagination: { wait_time_secs: 30 } }, login);
        latenciesMs.push(performance.now() - sentMs);
        const answer = reply.status === 200 ? reply.json : null;
        const isRight =
          answer?.state === 'Succeeded' && answer.data.length === rows && (rows > 1 || answer.data[0]?.[0] === step);
        if (!isRight) wrong.push(`${reply.status} ${reply.text.slice(0, 300)}`);
        if (answer !== null) await get(url, answer.final_uri, login);
      } catch (error) {
        wrong.push(String(error));
        await delay(100);
      }
      count++;
      await delay(restMs);
    }
  };
  const all = Promise.all(Array.from({ length: clients }, (_, number) => client(number)));
  return {
    wrong,
    get count() {
      return count;
    },
    windows: async (windowCount, ms) => {
      const windows: Window[] = [];
      while (windows.length < windowCount) {
        latenciesMs = [];
        await delay(ms);
        windows.push(windowOf(latenciesMs));
      }
      return windows;
    },
    stop: async () => {
      isStopped = true;
      await all;
    },
  };
}

/** The p99 of the median window: what else the machine does for a moment spoils one window or two, and not most of them. */
export function medianP99Ms(windows: readonly Window[]): number {
  const sorted = windows.map(({ p99Ms }) => p99Ms).sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

/**
 * The most that a p99 may be during a fault: more than ten times what it usually is then. It finds clients that are held up,
 * and not a busy machine. What the p99 is, is measured and printed.
 */
export const p99MsMax = figure(5_000, 500);

export function describeWindows(windows: readonly Window[]): string {
  return windows.map(({ count, p99Ms }) => `${p99Ms.toFixed(1)} (${count})`).join(', ');
}

function windowOf(latenciesMs: readonly number[]): Window {
  const sorted = [...latenciesMs].sort((a, b) => a - b);
  const at = (share: number): number =>
    sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.POSITIVE_INFINITY;
  return { count: sorted.length, p50Ms: at(0.5), p99Ms: at(0.99), maxMs: at(1) };
}
