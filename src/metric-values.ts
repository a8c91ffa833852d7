/** Upper bounds of the buckets of a histogram, in seconds. */
const durationBounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800];

/** A counter with at most one label. Without a label, its value is stored under ''. */
export class Total {
  readonly name: string;
  readonly help: string;
  readonly label: string | null;
  readonly values = new Map<string, number>();

  constructor(name: string, help: string, label: string | null) {
    this.name = name;
    this.help = help;
    this.label = label;
    if (label === null) this.values.set('', 0);
  }

  add(value: number, label = ''): void {
    this.values.set(label, (this.values.get(label) ?? 0) + value);
  }
}

/** Durations, each counted under the smallest bound that it does not exceed. */
export class Histogram {
  readonly #name: string;
  readonly #help: string;
  readonly #counts = new Float64Array(durationBounds.length + 1);
  #sum = 0;

  constructor(name: string, help: string) {
    this.#name = name;
    this.#help = help;
  }

  add(seconds: number): void {
    let index = 0;
    while (index < durationBounds.length && seconds > (durationBounds[index] as number)) index++;
    this.#counts[index] = (this.#counts[index] as number) + 1;
    this.#sum += seconds;
  }

  /** The interface that prom-client needs to print a metric. */
  under(prefixed: (name: string) => string): object {
    const name = prefixed(this.#name);
    return { name, get: async () => ({ name, help: this.#help, type: 'histogram', values: this.#values(name) }) };
  }

  #values(name: string): object[] {
    let count = 0;
    const buckets = [...this.#counts].map((inBucket, index) => {
      count += inBucket;
      return { metricName: `${name}_bucket`, labels: { le: durationBounds[index] ?? '+Inf' }, value: count };
    });
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels: {}, value: this.#sum },
      { metricName: `${name}_count`, labels: {}, value: count },
    ];
  }
}
