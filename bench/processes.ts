import { readdirSync, readFileSync, writeFileSync } from 'node:fs';

/** What the kernel counts of a process (proc(5)). */

/** Kernel clock ticks are hundredths of a second on every Linux that Node runs on. */
const tickMs = 10;

/** What `preload.ts` names the worker threads of a process. Linux keeps 15 characters. */
export const workerThreadName = 'bench-worker';

/** CPU time so far, in milliseconds: of `main` and each `worker N`. V8's and libuv's own threads are left out. */
export function threadsCpuMs(pid: number): Record<string, number> {
  const times: Record<string, number> = {};
  let workers = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`).sort((a, b) => Number(a) - Number(b))) {
    const folder = `/proc/${pid}/task/${thread}`;
    if (thread === String(pid)) times['main'] = statCpuMs(`${folder}/stat`);
    else if (readFileSync(`${folder}/comm`, 'utf8').trim() === workerThreadName) {
      times[`worker ${++workers}`] = statCpuMs(`${folder}/stat`);
    }
  }
  return times;
}

/** CPU time of a whole process so far, its ended threads included. */
export function processCpuMs(pid: number): number {
  return statCpuMs(`/proc/${pid}/stat`);
}

/** CPU time of all children of this process that have ended and been waited for. */
export function childrenCpuMs(): number {
  const fields = statFields('/proc/self/stat');
  return (Number(fields[13]) + Number(fields[14])) * tickMs;
}

export function memoryBytes(pid: number): number {
  return statusBytes(pid, 'VmRSS');
}

export function peakMemoryBytes(pid: number): number {
  return statusBytes(pid, 'VmHWM');
}

/** Makes the peak begin anew from what the process holds now. */
export function resetPeakMemory(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
}

/** How many files and sockets a process of this user may have open; Node takes the hard limit for its own. */
export function openFilesMax(): number {
  const [, max] = /^Max open files\s+\S+\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
  return max === 'unlimited' ? Number.POSITIVE_INFINITY : Number(max);
}

function statusBytes(pid: number, name: 'VmRSS' | 'VmHWM'): number {
  const line = new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(line?.[1]) * 1024;
}

function statCpuMs(path: string): number {
  const fields = statFields(path);
  return (Number(fields[11]) + Number(fields[12])) * tickMs;
}

/** The fields after the program's name, which may itself have spaces. */
function statFields(path: string): string[] {
  const text = readFileSync(path, 'utf8');
  return text.slice(text.lastIndexOf(')') + 2).split(' ');
}
