/** How many there are of each, by name; those of which there are none take no room. */
export class Counts {
  readonly #counts = new Map<string, number>();

  of(name: string): number {
    return this.#counts.get(name) ?? 0;
  }

  add(name: string, change: number): void {
    const count = this.of(name) + change;
    if (count === 0) this.#counts.delete(name);
    else this.#counts.set(name, count);
  }
}
