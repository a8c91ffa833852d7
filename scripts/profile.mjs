// npm run profile: brings what is missing, compiles everything, and profiles the scenario of the benchmark that is named.

import { runBenchProgram } from './setup.mjs';

await runBenchProgram('profile.js');
