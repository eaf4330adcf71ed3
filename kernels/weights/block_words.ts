/**
 * Blocks of a file as words. A block may begin in the middle of a word, so places are counted in halves of a word. Whole
 * words are moved: a loop over bytes takes longer than the file's reading.
 */

import { float32FromFloat16 } from "../../core/float16.ts";

/** Arrays for the planes of a piece, used again for the next piece: fresh memory takes longer than filling it. */
export class PlaneArrays {
  readonly #arrays: Uint32Array<ArrayBuffer>[] = [];

  /** An array for a plane, with any content. It is valid until the plane's next one is asked for. */
  words(plane: number, count: number): Uint32Array<ArrayBuffer> {
    let array = this.#arrays[plane];
    if (!array || array.length < count) this.#arrays[plane] = array = new Uint32Array(count);
    return array.subarray(0, count);
  }
}

/** Bytes as words, the last of them filled up. Only bytes that are not aligned, or end their buffer, are copied. */
export function wordsOf(bytes: Uint8Array): Uint32Array {
  const count = Math.ceil(bytes.length / 4);
  const fits = bytes.byteOffset % 4 === 0 && bytes.byteOffset + 4 * count <= bytes.buffer.byteLength;
  if (fits) return new Uint32Array(bytes.buffer, bytes.byteOffset, count);
  const words = new Uint32Array(count);
  new Uint8Array(words.buffer).set(bytes);
  return words;
}

/** Copies `count` words that begin at a half. */
export function copyWords(
  from: Uint32Array,
  half: number,
  [to, at, count]: readonly [to: Uint32Array, at: number, count: number],
): void {
  let word = half >> 1;
  if ((half & 1) === 0) {
    for (const end = at + count; at < end;) to[at++] = from[word++]!;
    return;
  }
  let low = from[word++]! >>> 16;
  for (const end = at + count; at < end;) {
    const next = from[word++]!;
    to[at++] = low | next << 16;
    low = next >>> 16;
  }
}

let widened: Uint32Array | null = null;

/**
 * The bits in single precision of every number in half precision, by its bits. Scales are widened before a device reads
 * them: they are often subnormal, and a device may take such numbers for 0.
 */
export function widenedHalves(): Uint32Array {
  if (widened) return widened;
  const halves = Uint16Array.from({ length: 1 << 16 }, (_, i) => i);
  return widened = new Uint32Array(float32FromFloat16(new Uint8Array(halves.buffer)).buffer);
}

/** The bits of the half at a place. */
export function halfAt(from: Uint32Array, half: number): number {
  return from[half >> 1]! >>> 16 * (half & 1) & 0xffff;
}
