// npm run bench: brings what is missing, compiles everything, and runs the benchmark. Arguments name scenarios;
// --node 22 runs Sluice alone, on that line of Node, and may be repeated to compare lines;
// --docs puts the last whole run's targets into docs/performance.md instead.

import { obtainNode } from './node-line.mjs';
import { runBenchProgram } from './setup.mjs';

// The benchmark itself is given the binary of a line.
await runBenchProgram('main.js', (args) => args.map((arg, at) => (args[at - 1] === '--node' ? obtainNode(arg) : arg)));
