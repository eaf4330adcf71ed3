/** Sets of bytes. */

/** A set of bytes: bit `byte % 32` of word `byte / 32`. */
export type ByteSet = Uint32Array;

/** The bytes of inclusive ranges. */
export function byteSet(...ranges: readonly (readonly [first: number, last: number])[]): ByteSet {
  const set = new Uint32Array(8);
  for (const [first, last] of ranges) {
    for (let byte = first; byte <= last; byte++) set[byte >>> 5]! |= 1 << (byte & 31);
  }
  return set;
}

/** Whether the set has the byte. */
export function hasByte(set: ByteSet, byte: number): boolean {
  return (set[byte >>> 5]! >>> (byte & 31) & 1) === 1;
}

/** The bytes of either set. */
export function joinSets(a: ByteSet, b: ByteSet): ByteSet {
  return a.map((word, i) => (word | b[i]!) >>> 0);
}

/** A byte of each class: no set separates two bytes of one class. */
export function representatives(sets: readonly ByteSet[]): number[] {
  const seen = new Map<string, number>();
  for (let byte = 0; byte < 256; byte++) {
    const signature = sets.map((set) => hasByte(set, byte) ? 1 : 0).join("");
    if (!seen.has(signature)) seen.set(signature, byte);
  }
  return [...seen.values()];
}
