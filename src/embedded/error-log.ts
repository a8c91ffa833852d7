import { readFileSync } from 'node:fs';

const logTailLinesMax = 3;
const logTailCharactersMax = 600;

/** The last errors in a log, joined to one line; if there is none, its last line. */
export function logTail(path: string): string {
  const lines = readLog(path)
    .split('\n')
    .filter((line) => line.trim() !== '');
  const errors = lines.filter((line) => /\[ERROR\]|^ERROR/.test(line) && !line.endsWith('[ERROR] Aborting'));
  const chosen = errors.length > 0 ? errors.slice(-logTailLinesMax) : lines.slice(-1);
  return `${chosen.join(' | ').slice(-logTailCharactersMax)} (${path})`;
}

function readLog(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
