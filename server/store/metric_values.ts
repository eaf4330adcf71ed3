/** The values of a metrics event as the database has them: float64, little-endian. */

const BYTES = Float64Array.BYTES_PER_ELEMENT;

export function encodeValues(values: readonly number[]): Uint8Array {
  const view = new DataView(new ArrayBuffer(values.length * BYTES));
  values.forEach((value, i) => view.setFloat64(i * BYTES, value, true));
  return new Uint8Array(view.buffer);
}

export function decodeValues(bytes: Uint8Array): Float64Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Float64Array.from({ length: bytes.byteLength / BYTES }, (_, i) => view.getFloat64(i * BYTES, true));
}
