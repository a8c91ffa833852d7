import type { ToWorker } from '../wire/messages.ts';
import type { Execution } from './execution.ts';

/** The statements of a connection that have ended and whose rows are still on disk, by number. They outlast the connection. */
export class DrainingStatements {
  readonly #executions = new Map<number, Execution>();

  get isEmpty(): boolean {
    return this.#executions.size === 0;
  }

  add(execution: Execution): void {
    this.#executions.set(execution.number, execution);
  }

  delete(execution: Execution): void {
    this.#executions.delete(execution.number);
  }

  /** @returns whether the message is about one of the statements */
  receive(message: ToWorker & { statement: number }): boolean {
    const execution = this.#executions.get(message.statement);
    if (execution === undefined) return false;
    if (message.type === 'credit') execution.credit(message.bytes, message.rows);
    if (message.type === 'cancel') {
      execution.close();
      this.delete(execution);
    }
    return true;
  }

  /** Drops all rows. */
  close(): void {
    for (const execution of this.#executions.values()) execution.close();
    this.#executions.clear();
  }
}
