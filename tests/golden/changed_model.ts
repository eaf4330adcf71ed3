/** Writes copies of model files with other tensors. */

import { Rng, rngKey } from "../../core/random.ts";
import { openGguf } from "../../trainer/formats/gguf.ts";
import type { GgufTensorSource } from "../../trainer/formats/gguf_writer.ts";
import { writeGguf } from "../../trainer/formats/gguf_writer.ts";
import { encodeTensor } from "../../trainer/formats/encode_tensor_testing.ts";

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
    pieces: async function* () {
      yield await file.readTensor(name);
    },
  }));
  const changed = [...vectors].map(([name, values]): GgufTensorSource => ({
    ...{ name, shape: [values.length], type: "F32" },
    pieces: () => [new Uint8Array(values.buffer, values.byteOffset, values.byteLength)],
  }));
  await writeGguf(to, { metadata: file.metadata, tensors: [...tensors, ...changed] });
}

/**
 * Writes a model whose feed-forward blocks are `width` wide, with zeros where the model had nothing: it computes the same.
 */
export async function widenFeedForward(from: string, to: string, width: number): Promise<void> {
  using file = await openGguf(from);
  const key = `${file.getString("general.architecture")}.feed_forward_length`;
  const metadata = new Map(file.metadata).set(key, { type: "uint32", value: width });
  const widened = async (name: string, [rows, columns]: readonly number[]): Promise<GgufTensorSource> => {
    const shape: [number, number] = name.includes("ffn_down") ? [rows!, width] : [width, columns!];
    const values = new Float32Array(shape[0] * shape[1]), old = await file.readFloats(name);
    for (let row = 0; row < rows!; row++) {
      values.set(old.subarray(row * columns!, (row + 1) * columns!), row * shape[1]);
    }
    const type = file.tensorType(name);
    return { name, type, shape, pieces: () => [encodeTensor(type, values)] };
  };
  const tensors = await Promise.all(
    [...file.tensors.values()].map(async (tensor): Promise<GgufTensorSource> => {
      const { name, shape } = tensor;
      if (/ffn_(gate|up|down)/.test(name)) return await widened(name, shape);
      const bytes = await file.readTensor(name);
      return { name, type: file.tensorType(name), shape, pieces: () => [bytes] };
    }),
  );
  await writeGguf(to, { metadata, tensors });
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
