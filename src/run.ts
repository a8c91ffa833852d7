import { ConfigError } from './config/config-error.ts';
import { helpText } from './config/help.ts';
import { readCommand } from './config/read-command.ts';
import type { Service } from './service.ts';
import { version } from './version.ts';

/** Exit codes after a second signal (POSIX shells: 128 + the signal's number). */
const exitCodes = { SIGINT: 130, SIGTERM: 143 } as const;

/** Executes the command line. The server runs until a signal ends it. */
export async function run(): Promise<void> {
  try {
    await start();
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    process.stderr.write(`sluice: ${error instanceof ConfigError ? '' : 'cannot start: '}${message}\n`);
    process.exit(1);
  }
}

async function start(): Promise<void> {
  const command = readCommand(process.argv.slice(2), process.env);
  if (command.type === 'help') {
    process.stdout.write(helpText());
    return;
  }
  if (command.type === 'version') {
    process.stdout.write(`sluice ${version}\n`);
    return;
  }
  const { config } = command;
  // Loading the server takes tenths of a second, and --help and errors in options do not need it.
  const [{ openLog }, { Service: ServiceClass }] = await Promise.all([import('./log.ts'), import('./service.ts')]);
  // A terminal that is closed does not end the server.
  process.stdout.on('error', () => {});
  const { observe, flush } = openLog(config.log.logLevel);
  const exit = async (code: number): Promise<never> => {
    await flush();
    process.exit(code);
  };
  const starting = new AbortController();
  let service: Service | null = null;
  let signals = 0;
  let isReloadPending = false;
  process.on('SIGHUP', () => {
    if (service === null) isReloadPending = true;
    else void service.reload();
  });
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      signals++;
      starting.abort();
      if (service === null) return;
      if (signals === 1) {
        process.stdout.write(
          `sluice stops when its results are read, in ${config.stopping.drainMs / 1_000} s at the latest; a second signal stops it at once\n`,
        );
        // After a second signal, this promise resolves too, and the exit code is that of the signal.
        void service.stop().then(() => {
          if (signals === 1) exit(0);
        });
      } else {
        void service.abort().then(() => exit(exitCodes[signal]));
      }
    });
  }
  try {
    service = await ServiceClass.start(config, observe, starting.signal);
  } catch (error) {
    // A signal has interrupted the start.
    if (signals > 0) return exit(0);
    throw error;
  }
  if (isReloadPending) void service.reload();
  const { embedded } = service;
  process.on('exit', () => embedded?.kill());
  if (signals > 0) {
    await service.stop();
    return exit(0);
  }
  process.stdout.write(`sluice listens on ${service.url}\n`);
  if (embedded !== null) {
    process.stdout.write(examples(service.url));
    void embedded.exited.then((error) => {
      if (signals > 0) return;
      process.stderr.write(`sluice: the private MariaDB ended: ${error.message}\n`);
      process.exit(1);
    });
  }
}

/** Three requests against the sample database that can be pasted as they are. */
function examples(url: string): string {
  const bodies = [
    '{"sql":"SELECT river, station, level_mm, flow_m3s FROM station_now WHERE in_alarm"}',
    '{"sql":"SELECT label, a_bigint, a_decimal, a_date, a_blob FROM type_gallery"}',
    '{"sql":"SELECT * FROM reading","pagination":{"max_rows_per_page":3}}',
  ];
  const lines = bodies.map(
    (body) => `  curl -u root: -H 'Content-Type: application/json' -d '${body}' ${url}/v1/query`,
  );
  return `try it:\n${lines.join('\n')}\n`;
}
