import type { Channel } from '../wire/link.ts';
import type { FromWorker, ToWorker } from '../wire/messages.ts';
import type { LargeRowMemory, LargeRowReservation } from '../wire/statement.ts';

/** The memory for the large rows that the worker holds for one connection: at most one row of each statement. */
export class LargeRowReservations {
  readonly #memory: LargeRowMemory;
  readonly #user: string;
  readonly #channel: Channel<ToWorker, FromWorker>;
  /** By the numbers of the statements. */
  readonly #reservations = new Map<number, LargeRowReservation>();

  constructor(memory: LargeRowMemory, user: string, channel: Channel<ToWorker, FromWorker>) {
    this.#memory = memory;
    this.#user = user;
    this.#channel = channel;
  }

  /**
   * Reserves memory for a row, perhaps later, and reports to the worker when it is reserved. However the statement ends, the
   * worker releases the reservation by a message, or the channel is closed.
   * @param bytes 0: the statement holds no large row
   */
  reserve(statement: number, bytes: number): void {
    this.#reservations.get(statement)?.release();
    this.#reservations.delete(statement);
    if (bytes === 0) return;
    const granted = (): void => this.#channel.post({ type: 'room', statement });
    this.#reservations.set(statement, this.#memory.reserve(this.#user, bytes, granted));
  }

  releaseAll(): void {
    for (const reservation of this.#reservations.values()) reservation.release();
    this.#reservations.clear();
  }
}
