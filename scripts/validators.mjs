/**
 * Compiles the JSON schemas, which are of the protocol and of a file on disk, into validators, so that the server neither
 * parses a schema nor generates code when it starts. `node scripts/validators.mjs` writes them; with `--check` it tells,
 * by its exit code, whether those in the tree are the ones that it would write.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Ajv } from 'ajv';
import standaloneModule from 'ajv/dist/standalone/index.js';

const standaloneCode = standaloneModule.default;
const folder = new URL('../src/', import.meta.url);
const schemas = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith('.schema.json'));

/** The validator's source text for the schema at `url`. */
function generate(url) {
  const ajv = new Ajv({
    strict: true,
    strictRequired: false,
    strictTypes: false,
    code: { source: true, esm: true, lines: true },
  });
  const code = standaloneCode(ajv, ajv.compile(JSON.parse(readFileSync(url, 'utf8'))));
  return `// @ts-nocheck\n// Generated from the schema beside it by scripts/validators.mjs; change that, not this.\n${code}`;
}

let stale = 0;
for (const schema of schemas) {
  const from = new URL(schema, folder);
  const to = new URL(schema.replace('.schema.json', '.validator.ts'), folder);
  const code = generate(from);
  if (!process.argv.includes('--check')) {
    writeFileSync(to, code);
  } else if (readFileSync(to, 'utf8') !== code) {
    console.error(`${fileURLToPath(to)} does not belong to its schema: run "npm run validators"`);
    stale++;
  }
}
process.exitCode = stale === 0 ? 0 : 1;
