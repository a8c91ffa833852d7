import { readFileSync } from 'node:fs';

/**
 * A text that is equal for as long as the process `pid` lives and that no later process with the
 * same number has; undefined if there is no such process. A zombie counts as gone.
 */
export function identify(pid: number): string | undefined {
  if (process.platform !== 'linux') return answers(pid) ? 'alive' : undefined;
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The second field is the program's name in parentheses, and may itself hold spaces and parentheses.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [state] = fields;
    if (state === 'Z' || state === 'X') return undefined;
    // Start times count from the boot, so a number and a time can come again after the next one.
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
