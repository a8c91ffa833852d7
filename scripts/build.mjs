// npm run build: compiles everything.

import { build, SetupError, say } from './setup.mjs';

try {
  await build(['.']);
} catch (error) {
  say(error instanceof SetupError ? error.message : error.stack);
  process.exitCode = 1;
}
