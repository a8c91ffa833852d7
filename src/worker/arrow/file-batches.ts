import type { BatchLimits } from '../../formats/arrow/batch-limits.ts';
import type { RowPackets } from './cells.ts';

/** The batches of a kept result for a file: joined while they fit, and divided where they have too many rows. */
export function* fileBatches(packets: Iterable<RowPackets>, limits: BatchLimits): Generator<RowPackets> {
  let parts: RowPackets[] = [];
  let bytes = 0;
  let rows = 0;
  const take = (): RowPackets => {
    const joined = join(parts, bytes, rows);
    parts = [];
    bytes = 0;
    rows = 0;
    return joined;
  };
  for (const batch of packets) {
    for (let from = 0; from < batch.ends.length; ) {
      const part = slice(batch, from, Math.min(batch.ends.length, from + limits.rows - rows));
      if (rows > 0 && bytes + part.source.length > limits.packetBytes) {
        yield take();
        continue;
      }
      parts.push(part);
      bytes += part.source.length;
      rows += part.ends.length;
      from += part.ends.length;
      if (rows >= limits.rows) yield take();
    }
  }
  if (rows > 0) yield take();
}

function slice({ source, ends }: RowPackets, from: number, to: number): RowPackets {
  const start = from === 0 ? 0 : (ends[from - 1] as number);
  const ofPart = ends.subarray(from, to);
  return {
    source: source.subarray(start, ends[to - 1] as number),
    ends: start === 0 ? ofPart : ofPart.map((end) => end - start),
  };
}

function join(parts: readonly RowPackets[], bytes: number, rows: number): RowPackets {
  const [first] = parts;
  if (first !== undefined && parts.length === 1) return first;
  const source = Buffer.allocUnsafeSlow(bytes);
  const ends = new Uint32Array(rows);
  let at = 0;
  let row = 0;
  for (const part of parts) {
    part.source.copy(source, at);
    for (const end of part.ends) ends[row++] = at + end;
    at += part.source.length;
  }
  return { source, ends };
}
