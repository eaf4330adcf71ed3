/** Half-precision floats as bytes, little-endian. */

/** A view of `bytes` aligned for a typed array of `size`-byte items. Copies only misaligned bytes. */
export function alignedBytes(bytes: Uint8Array, size: number): Uint8Array {
  return bytes.byteOffset % size === 0 ? bytes : bytes.slice();
}

/** Widens IEEE 754 binary16; exact. */
export function float32FromFloat16(bytes: Uint8Array): Float32Array<ArrayBuffer> {
  const aligned = alignedBytes(bytes, 2);
  return new Float32Array(new Float16Array(aligned.buffer, aligned.byteOffset, aligned.byteLength / 2));
}

/** Widens bfloat16, the upper half of a binary32; exact. */
export function float32FromBfloat16(bytes: Uint8Array): Float32Array<ArrayBuffer> {
  const aligned = alignedBytes(bytes, 2);
  const halves = new Uint16Array(aligned.buffer, aligned.byteOffset, aligned.byteLength / 2);
  const words = new Uint32Array(halves.length);
  for (let i = 0; i < halves.length; i++) words[i] = halves[i]! << 16;
  return new Float32Array(words.buffer);
}
