import type { RowPackets } from './arrow/cells.ts';
import { DamageError } from './kept-batches.ts';
import { headerBytes } from './kernel/shared/row-packet.ts';
import { kernel, kernelStop } from './kernel.ts';
import type { RowEncoder } from './row-encoder.ts';

/** Rows were checked when they came. */
export const noLimit = Number.MAX_SAFE_INTEGER;

/**
 * Encodes the rows `from` to `to` of a batch as text.
 * @param isEnough whether no more rows are wanted
 * @throws DamageError
 */
export function encodeRows(
  encoder: RowEncoder,
  { source, ends }: RowPackets,
  from: number,
  to: number,
  isEnough: () => boolean,
): void {
  if (to <= from) return;
  const start = from === 0 ? 0 : (ends[from - 1] as number);
  const end = ends[to - 1] as number;
  const { input } = kernel;
  if (end - start > input.length) {
    for (let row = from; row < to && !isEnough(); row++)
      append(encoder, source, row === 0 ? 0 : (ends[row - 1] as number), ends[row] as number);
    return;
  }
  source.copy(input, 0, start, end);
  for (let at = 0; at < end - start && !isEnough(); at = kernel.consumed) {
    const stop = encoder.encode(at, end - start, noLimit);
    if (stop === kernelStop.outputFull || stop === kernelStop.rowsMax) continue;
    if (kernel.consumed >= end - start) return;
    if (stop !== kernelStop.largeRow) throw new DamageError(`row packets cannot be read (${stop})`);
    // A copy, as the kernel's memory is used for its long cells.
    const packet = kernel.consumed;
    const packetEnd = packet + headerBytes + input.readUIntLE(packet, 3);
    append(encoder, Buffer.from(input.subarray(packet, packetEnd)), 0, packetEnd - packet);
    kernel.consumed = packetEnd;
  }
}

function append(encoder: RowEncoder, bytes: Buffer, start: number, end: number): void {
  encoder.append(bytes, start + headerBytes, end);
}
