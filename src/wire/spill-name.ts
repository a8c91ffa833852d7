import { randomBytes } from 'node:crypto';

const nameBytes = 12;
const form = new RegExp(`^[0-9a-f]{${2 * nameBytes}}$`);

/** A new name for a file with rows on disk. */
export function spillName(): string {
  return randomBytes(nameBytes).toString('hex');
}

/** Whether `spillName` can have returned this name. */
export function isSpillName(name: string): boolean {
  return form.test(name);
}
