/** Writes copies of model files with other tensors. */

import { Rng, rngKey } from "../../core/random.ts";
import { openGguf } from "../../trainer/formats/gguf.ts";
import type { GgufTensorSource } from "../../trainer/formats/gguf_writer.ts";
import { writeGguf } from "../../trainer/formats/gguf_writer.ts";

/**
 * Writes a model file with some of its tensors replaced, or with additional ones: by name, row-major vectors in f32.
 */
export async function writeChanged(
  from: string,
  to: string,
  vectors: ReadonlyMap<string, Float32Array>,
): Promise<void> {
  using file = await openGguf(from);
  const kept = [...file.tensors.values()].filter(({ name }) => !vectors.has(name));
  const tensors = kept.map(({ name, shape }): GgufTensorSource => ({
    ...{ name, shape, type: file.tensorType(name) },
    pieces: () => file.readTensorPieces(name, 1 << 20),
  }));
  const changed = [...vectors].map(([name, values]): GgufTensorSource => ({
    ...{ name, shape: [values.length], type: "F32" },
    pieces: () => [new Uint8Array(values.buffer, values.byteOffset, values.byteLength)],
  }));
  await writeGguf(to, { metadata: file.metadata, tensors: [...tensors, ...changed] });
}

/** Random biases of a given standard deviation for the projections of a qwen2 file that have them. */
export async function randomBiases(path: string, deviation: number): Promise<Map<string, Float32Array>> {
  using file = await openGguf(path);
  const names = [...file.tensors.keys()].filter((name) => name.endsWith(".bias"));
  return new Map(names.map((name) => {
    const rng = new Rng(rngKey(1, "bias", name));
    return [
      name,
      Float32Array.from({ length: file.tensor(name).shape[0]! }, () => deviation * rng.normal()),
    ];
  }));
}
