#!/usr/bin/env node
// It imports nothing statically: the modules take some tenths of a second to load, and signals may come meanwhile.

// The default is to end the process. Until the options are read there is nothing to read again.
process.on('SIGHUP', () => {});
// In place of the flags, which may have passwords in them and which every user of this machine could read.
process.title = 'sluice';

const { run } = await import('./run.ts');
await run();
