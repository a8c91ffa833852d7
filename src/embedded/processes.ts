import { readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, sep } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { identify } from '../process-identity.ts';
import { isOurs } from './folders.ts';

const pollMs = 10;

/** A server with many changed pages takes a while to flush them. After this time it is killed, which InnoDB survives. */
const endTimeoutMs = 10_000;

/**
 * Ends every MariaDB server and installer of this user (if that is root: of any user) whose data directory is below `folder` (an
 * absolute, real path), and waits until they are gone. Without /proc it finds none, and InnoDB's own lock refuses the start.
 * @throws Error if one of them survives SIGKILL
 */
export async function endServersBelow(folder: string): Promise<void> {
  for (const { pid, server } of serversBelow(folder)) await end(pid, server ? 'SIGTERM' : 'SIGKILL');
}

/** The servers and installers of this user whose data directory is below `folder`; none without /proc. */
export function serversBelow(folder: string): { readonly pid: number; readonly server: boolean }[] {
  if (process.platform !== 'linux') return [];
  const found: { pid: number; server: boolean }[] = [];
  for (const entry of readdirSync('/proc')) {
    const pid = Number(entry);
    if (!Number.isInteger(pid)) continue;
    const words = commandLine(pid);
    // An installer is a script: its name follows the name of its interpreter.
    const names = words.slice(0, 2).map((word) => basename(word));
    const server = names[0] === 'mariadbd';
    if (!server && !names.includes('mariadb-install-db')) continue;
    if (words.some((word) => word.startsWith(`--datadir=${folder}${sep}`))) found.push({ pid, server });
  }
  // Installers are ended first, since they continue with the next step when their server ends.
  return found.sort((one, other) => Number(one.server) - Number(other.server));
}

async function end(pid: number, first: 'SIGTERM' | 'SIGKILL'): Promise<void> {
  const identity = identify(pid);
  if (identity === undefined) return;
  for (const signal of [first, 'SIGKILL'] as const) {
    try {
      process.kill(pid, signal);
    } catch {
      return;
    }
    const deadline = performance.now() + endTimeoutMs;
    while (performance.now() < deadline) {
      // It is no child process, so there is no event at its end.
      if (identify(pid) !== identity) return;
      await delay(pollMs);
    }
  }
  throw new Error(`mariadbd (process ${pid}) is left from an earlier run and does not end`);
}

function commandLine(pid: number): string[] {
  try {
    if (!isOurs(statSync(`/proc/${pid}`).uid)) return [];
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return [];
  }
}
