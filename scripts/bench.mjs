// npm run bench: brings what is missing, compiles everything, and runs the benchmark. Arguments name scenarios;
// --readme puts the last whole run's targets into the README instead.

import { runBenchProgram } from './setup.mjs';

await runBenchProgram('main.js');
