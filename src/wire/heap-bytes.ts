/**
 * An upper estimate of the bytes that a JSON value takes on V8's heap: two bytes per character of a string, and for an object a
 * dictionary with spare room.
 */
export function heapBytes(value: unknown): number {
  if (typeof value === 'string') return stringBytes(value);
  if (typeof value !== 'object' || value === null) return scalarBytes;
  // Packed params take memory as bytes here, and as values in a worker thread.
  if (value instanceof Uint8Array) return 3 * value.byteLength;
  let bytes = objectBytes;
  if (Array.isArray(value)) {
    for (const element of value) bytes += elementBytes + heapBytes(element);
    return bytes;
  }
  for (const [name, member] of Object.entries(value)) bytes += memberBytes + 2 * name.length + heapBytes(member);
  return bytes;
}

export function stringBytes(text: string): number {
  return 32 + 2 * text.length;
}

const scalarBytes = 16;
const objectBytes = 64;
const elementBytes = 8;
const memberBytes = 112;
