// Loaded into a service before its own code (NODE_OPTIONS=--import): sends it a SIGHUP at each module that it loads, from when its
// entry runs. Each is noted in the file that EARLY_HANGUPS names.

import { appendFileSync } from 'node:fs';
import { register } from 'node:module';
import { isMainThread } from 'node:worker_threads';

const program = new URL('../../../dist/', import.meta.url).href;
const path = process.env['EARLY_HANGUPS'];

// Node loads the same file once more, in a thread of its own, for the hook.
if (path !== undefined && isMainThread) register(import.meta.url);

type NextResolve = (specifier: string, context: object) => Promise<object>;

export async function resolve(
  specifier: string,
  context: { readonly parentURL?: string },
  next: NextResolve,
): Promise<object> {
  if (path !== undefined && context.parentURL?.startsWith(program)) {
    appendFileSync(path, `${specifier}\n`);
    process.kill(process.pid, 'SIGHUP');
  }
  return next(specifier, context);
}
