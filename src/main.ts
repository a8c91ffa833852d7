#!/usr/bin/env node
// There are no static imports: the modules take some tenths of a second to load, and the signal handler must be set before.

// By default, SIGHUP ends the process. Until the options are read there is nothing to reload.
process.on('SIGHUP', () => {});
// Hides the flags, which may contain passwords, from other users of this machine.
process.title = 'sluice';

const { run } = await import('./run.ts');
await run();
