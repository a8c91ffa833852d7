import { readFileSync } from 'node:fs';

const LOG_TAIL_LINES_MAX = 3;
const LOG_TAIL_CHARACTERS_MAX = 600;

/** The last errors in a log, joined to one line; if there is none, its last line. */
export function logTail(path: string): string {
  const lines = readLog(path)
    .split('\n')
    .filter((line) => line.trim() !== '');
  const errors = lines.filter((line) => /\[ERROR\]|^ERROR/.test(line) && !line.endsWith('[ERROR] Aborting'));
  const chosen = errors.length > 0 ? errors.slice(-LOG_TAIL_LINES_MAX) : lines.slice(-1);
  return `${chosen.join(' | ').slice(-LOG_TAIL_CHARACTERS_MAX)} (${path})`;
}

function readLog(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
