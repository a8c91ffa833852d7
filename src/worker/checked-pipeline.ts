import { Pipeline, type PlainCommand } from './commands.ts';
import type { Connection } from './connection.ts';
import { type DriverError, isConnectionLost } from './failures.ts';
import type { OkPacket } from './packets.ts';

export type CheckedCommand = PlainCommand & {
  /** An error of the server is ignored. */
  readonly mayBeRefused?: true;
};

/** Commands for one write, each of which must succeed unless it may be refused. */
export class CheckedPipeline {
  readonly pipeline: Pipeline;
  readonly #commands: readonly CheckedCommand[];

  constructor(commands: readonly CheckedCommand[]) {
    this.#commands = commands;
    this.pipeline = new Pipeline(commands);
  }

  /**
   * @param onOk receives the OK packet of each command that succeeds
   * @throws DriverError if a command fails that must succeed
   */
  async run(connection: Connection, onOk: ((packet: OkPacket) => void) | null = null): Promise<void> {
    this.check(await connection.pipeline(this.pipeline, onOk));
  }

  /**
   * @param errors one per command; null for a command that succeeded
   * @throws DriverError if a command failed that must succeed
   */
  check(errors: readonly (DriverError | null)[]): void {
    for (const [index, error] of errors.entries()) {
      if (error !== null && (this.#commands[index]?.mayBeRefused !== true || isConnectionLost(error))) throw error;
    }
  }
}
