// npm run lint: Biome's rules (biome.json), and one of our own: the name of a dialect stands in its own folder under
// src/api/ and in src/api/index.ts, and nowhere else in src/.

import { execFile } from 'node:child_process';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ROOT } from './setup.mjs';

const BIOME = join(ROOT, 'node_modules/@biomejs/biome/bin/biome');
const APIS = join('src', 'api');

/** @returns what is wrong; an empty text if nothing is */
export async function lint() {
  const args = [BIOME, 'check', '--diagnostic-level=error', '.'];
  const faults = await new Promise((resolve) => {
    execFile(process.execPath, args, { cwd: ROOT }, (error, stdout, stderr) => {
      resolve(error === null ? [] : [stdout, stderr]);
    });
  });
  return [...faults, ...misplacedNames()].join('\n');
}

function misplacedNames() {
  // The native dialect's name is a word like others.
  const dialects = readdirSync(join(ROOT, APIS)).filter(
    (name) => name !== 'native' && statSync(join(ROOT, APIS, name)).isDirectory(),
  );
  const sources = readdirSync(join(ROOT, 'src'), { recursive: true })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join('src', name));
  return dialects.flatMap((dialect) =>
    sources
      .filter((source) => !source.startsWith(join(APIS, dialect) + sep) && source !== join(APIS, 'index.ts'))
      .filter((source) => readFileSync(join(ROOT, source), 'utf8').toLowerCase().includes(dialect.toLowerCase()))
      .map((source) => `${source}: the name of the dialect ${dialect} belongs into ${join(APIS, dialect)}`),
  );
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const faults = await lint();
  if (faults !== '') process.stderr.write(`${faults}\n`);
  process.exitCode = faults === '' ? 0 : 1;
}
