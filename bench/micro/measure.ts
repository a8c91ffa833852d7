import { do_not_optimize, measure } from 'mitata';

/** Nanoseconds of CPU time that a call takes: the median of many calls, after some that warm up. */
export async function callNs(call: () => unknown): Promise<number> {
  // Unless a call is long, its time is that of thousands in a row. One that is interrupted is not yet long.
  const options = { now: cpuNs, gc: false, warmup_threshold: Number.POSITIVE_INFINITY, warmup_samples: 100 };
  // What a call returns is kept, since the compiler leaves out what nobody uses.
  const { p50 } = await measure(() => do_not_optimize(call()), options);
  return p50;
}

export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** CPU time, unlike the clock, does not go on while another program has the core. */
function cpuNs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) * 1_000;
}
