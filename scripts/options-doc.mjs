// npm run options-doc: writes docs/options.md from the table of options. A test checks that it has been run.

import { writeFileSync } from 'node:fs';
import { optionsDoc } from '../dist/config/options-doc.js';

writeFileSync(new URL('../docs/options.md', import.meta.url), optionsDoc());
