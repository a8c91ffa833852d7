import { readFileSync } from 'node:fs';

/**
 * A text that identifies the process `pid`: it stays the same while the process lives, and a later process with the same number
 * has another one. undefined: there is no such process, or it is a zombie.
 */
export function identify(pid: number): string | undefined {
  if (process.platform !== 'linux') return answers(pid) ? 'alive' : undefined;
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The second field is the name of the program in parentheses. It may contain spaces and parentheses.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [state] = fields;
    if (state === 'Z' || state === 'X') return undefined;
    // The start time is relative to the boot: after another boot, the same number and time can occur again.
    return `${bootId()}/${fields[19]}`;
  } catch {
    return undefined;
  }
}

function answers(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

function bootId(): string {
  return readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim();
}
