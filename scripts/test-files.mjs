// Runs the compiled test files that its arguments name, all in this process. Not `node --import`, which the threads that a
// test starts would inherit.

import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';

// No test begins before all files are loaded: what a module takes from the system when it is loaded, a test may have replaced.
let begin;
t.before(
  () =>
    new Promise((resolve) => {
      begin = resolve;
    }),
);
for (const path of process.argv.slice(2)) await import(pathToFileURL(resolve(path)).href);
begin();
