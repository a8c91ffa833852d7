/** A channel to a worker. */
interface ClosingChannel {
  once(event: 'close', listener: () => void): unknown;
}

/** A user, while connections of that user, or rows of theirs on disk, exist. */
interface SpillUser {
  readonly slot: number;
  channels: number;
}

/** Gives users their slots of the spill usage. Users for whom none is left share the last one. */
export class SpillUsers {
  readonly #users = new Map<string, SpillUser>();
  readonly #lastSlot: number;
  /** First in, first out: a worker may release the last rows of a slot only after the slot has become free. */
  readonly #free: number[];

  constructor(slots: number) {
    this.#lastSlot = slots - 1;
    this.#free = Array.from({ length: this.#lastSlot }, (_, slot) => slot);
  }

  /** The slot of a user, which is the same one until all channels that it was asked for are closed. */
  slotFor(user: string, channel: ClosingChannel): number {
    let entry = this.#users.get(user);
    if (entry === undefined) {
      entry = { slot: this.#free.shift() ?? this.#lastSlot, channels: 0 };
      this.#users.set(user, entry);
    }
    const { slot } = entry;
    entry.channels++;
    channel.once('close', () => this.#closed(user));
    return slot;
  }

  #closed(user: string): void {
    const entry = this.#users.get(user);
    if (entry === undefined || --entry.channels > 0) return;
    this.#users.delete(user);
    if (entry.slot !== this.#lastSlot) this.#free.push(entry.slot);
  }
}
