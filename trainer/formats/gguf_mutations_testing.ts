/** Mutated GGUF files, the same for the same seed. */

import { Rng, rngKey } from "../../core/random.ts";

/** A file with some bytes changed: flipped bits, extreme bytes, a slice doubled or removed, the end cut off. */
export function mutateGguf(bytes: Uint8Array, header_bytes: number, seed: number): Uint8Array<ArrayBuffer> {
  const random = new Rng(rngKey(seed, "gguf"));
  let mutant = joined(bytes);
  for (let changes = 1 + random.below(4); changes > 0; changes--) {
    const at = random.below(Math.min(mutant.length, header_bytes + 32));
    const kind = random.below(6), length = 1 + random.below(16);
    if (kind === 0) mutant[at]! ^= 1 << random.below(8);
    else if (kind === 1) mutant[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)]!;
    else if (kind === 2) mutant.fill(random.below(2) * 255, at, at + 8);
    else if (kind === 3) mutant = joined(mutant.subarray(0, at), mutant.subarray(at + length));
    else if (kind === 4) mutant = joined(mutant.subarray(0, at + length), mutant.subarray(at));
    else mutant = mutant.slice(0, mutant.length - random.below(mutant.length));
    if (mutant.length === 0) break;
  }
  return mutant;
}

function joined(...parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
