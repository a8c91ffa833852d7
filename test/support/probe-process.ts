import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import type { Look } from './probe.ts';
import type { SluiceProcess } from './sluice.ts';
import { until } from './until.ts';

export interface Probe {
  /** For `startSluice`. */
  readonly env: Readonly<Record<string, string>>;
  /** Looks at a service that was started with `env` from the inside, when its garbage is collected. */
  look(sluice: SluiceProcess): Promise<Look>;
}

/** A probe (see probe.ts) for one service. */
export async function prepareProbe(t: Test): Promise<Probe> {
  const folder = await mkdtemp(join(tmpdir(), 'probe-'));
  t.teardown(() => rm(folder, { recursive: true }));
  const file = join(folder, 'looks');
  // After the last newline there is nothing, or a line that is still being written.
  const lines = (): string[] => (existsSync(file) ? readFileSync(file, 'utf8').split('\n').slice(0, -1) : []);
  return {
    env: { NODE_OPTIONS: `--import=${new URL('./probe.js', import.meta.url).href}`, PROBE_FILE: file },
    look: async ({ child }) => {
      const before = lines().length;
      child.kill('SIGUSR2');
      const written = await until(lines, ({ length }) => length > before);
      return JSON.parse(written.at(-1) as string) as Look;
    },
  };
}
