import { readdirSync, readFileSync, writeFileSync } from 'node:fs';

/** What the kernel counts of a process (proc(5)). */

/** Kernel clock ticks are hundredths of a second on every Linux that Node runs on. */
const tickMs = 10;

/** CPU time of each thread so far, in milliseconds: the main thread under `main`, others by their ids. */
export function threadCpuMs(pid: number): Map<string, number> {
  const times = new Map<string, number>();
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    times.set(thread === String(pid) ? 'main' : thread, statCpuMs(`/proc/${pid}/task/${thread}/stat`));
  }
  return times;
}

/** CPU time of a whole process so far. */
export function processCpuMs(pid: number): number {
  return statCpuMs(`/proc/${pid}/stat`);
}

/** CPU time of all children of this process that have ended and been waited for. */
export function childrenCpuMs(): number {
  const fields = statFields('/proc/self/stat');
  return (Number(fields[13]) + Number(fields[14])) * tickMs;
}

export function peakMemoryBytes(pid: number): number {
  const line = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(line?.[1] ?? 0) * 1024;
}

/** Makes the peak begin anew from what the process holds now. */
export function resetPeakMemory(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
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
