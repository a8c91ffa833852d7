/** Measures single parts of the server, or those named on the command line, and prints a line for each figure. */
import { run as encoder } from './encoder.ts';
import { run as matcher } from './matcher.ts';
import { run as ring } from './ring.ts';
import { run as validator } from './validator.ts';

const programs: Readonly<Record<string, () => Promise<void>>> = { encoder, matcher, ring, validator };

async function main(names: readonly string[]): Promise<void> {
  const unknown = names.find((name) => !Object.hasOwn(programs, name));
  if (unknown !== undefined)
    throw new Error(`nothing is called '${unknown}'; there are ${Object.keys(programs).join(', ')}`);
  for (const [name, run] of Object.entries(programs)) if (names.length === 0 || names.includes(name)) await run();
}

main(process.argv.slice(2)).catch((error: unknown) => {
  process.stderr.write(`micro: ${(error as Error).message}\n`);
  process.exitCode = 1;
});
