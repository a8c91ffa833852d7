/** Bits of shared/invalid-cell.ts, found since the loader last reset it. */
export let invalid: u32 = 0;

export function reportInvalid(bit: u32): void {
  invalid |= bit;
}
