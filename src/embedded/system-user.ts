import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** A user of the operating system. */
export interface SystemUser {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

/** In order of preference. */
const names = ['mysql', 'nobody'];

/** CHOWN, KILL, SETGID and SETUID (linux/capability.h), which root can lack in a container. */
const neededCapabilities = (1n << 0n) | (1n << 5n) | (1n << 6n) | (1n << 7n);

/**
 * The user that MariaDB runs as if this process runs as root: the first of mysql and nobody that can enter `folder` and run
 * `program`; null if there is none, or if this process does not run as root.
 */
export function findSystemUser(folder: string, program: string): SystemUser | null {
  if (process.getuid?.() !== 0 || !maySwitchUser()) return null;
  for (const name of names) {
    const user = lookUp(name);
    if (user !== null && canUse(user, folder, program)) return user;
  }
  return null;
}

function maySwitchUser(): boolean {
  if (process.platform !== 'linux') return true;
  const [, effective] = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'latin1')) ?? [];
  return effective !== undefined && (BigInt(`0x${effective}`) & neededCapabilities) === neededCapabilities;
}

function lookUp(wanted: string): SystemUser | null {
  for (const line of readAccounts().split('\n')) {
    const [name = '', , uid = '', gid = ''] = line.split(':');
    if (name === wanted && /^[1-9]\d*$/.test(uid) && /^\d+$/.test(gid)) {
      return { name, uid: Number(uid), gid: Number(gid) };
    }
  }
  return null;
}

function readAccounts(): string {
  try {
    return readFileSync('/etc/passwd', 'utf8');
  } catch {
    return '';
  }
}

function canUse(user: SystemUser, folder: string, program: string): boolean {
  // The permissions of all parent folders matter, so the check is run as that user.
  const script = 'cd "$1" && test -x "$2"';
  const { uid, gid } = user;
  const result = spawnSync('/bin/sh', ['-c', script, 'sh', folder, program], { uid, gid, cwd: '/', stdio: 'ignore' });
  return result.status === 0;
}
