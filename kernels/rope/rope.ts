/** Rotary position embedding, in place, and its inverse. The formula is in the shader. */

import { defineKernel } from "../kernel.ts";
import type { Recorder } from "../recorder.ts";
import { ceilDiv, expectMultiple, expectShape } from "../shape.ts";
import type { Tensor } from "../tensor.ts";
import {
  constantsPart,
  deviceForm,
  itemPart,
  type ItemSize,
  itemSize,
  kernelFamily,
  wrappedGrid,
} from "../variant.ts";
import ropeWgsl from "./rope.wgsl" with { type: "text" };
import ropeAdjacentWgsl from "./rope_adjacent.wgsl" with { type: "text" };

const THREADS = 64;

const kernel = kernelFamily((size: ItemSize) =>
  defineKernel({
    name: "rope",
    wgsl: [constantsPart({ threads: THREADS }), itemPart(size), { file: "rope.wgsl", text: ropeWgsl }],
    params: { rows: "u32", heads: "u32", thread_heads: "u32", half_items: "u32", sign: "f32" },
    inputs: ["positions", "cosines", "sines"],
    outputs: ["x"],
    textures: { cosines: "kept", sines: "kept", x: 1 },
  })
);

const adjacentKernel = kernelFamily(() =>
  defineKernel({
    name: "rope_adjacent",
    wgsl: [constantsPart({ threads: THREADS }), { file: "rope_adjacent.wgsl", text: ropeAdjacentWgsl }],
    params: { rows: "u32", heads: "u32", thread_heads: "u32", pairs: "u32", sign: "f32" },
    inputs: ["positions", "cosines", "sines"],
    outputs: ["x"],
  })
);

/**
 * Which numbers of a head rotate together: `half`, (i, i + D/2), as in GPT-NeoX and Hugging Face; `adjacent`, (2i, 2i +
 * 1), as in the paper and in GGUF files of llama.
 */
export type RopePairing = "half" | "adjacent";

/** Cosines and sines of all angles, row-major `[T, D/2]`. */
export interface RopeTable {
  cosines: Float32Array;
  sines: Float32Array;
  shape: readonly [number, number];
}

/** The shape `[T, D/2]` of a table of T positions. @throws {ShapeError} When the head width D is odd. */
export function ropeTableShape(head_width: number, positions: number): readonly [number, number] {
  expectMultiple(head_width, 2, "head width");
  return [positions, head_width / 2];
}

/**
 * The table of `cos` and `sin` of `position · base^(−2i/D) / factors[i]`, computed in f64 and rounded once. An f32
 * angle would have an error of 2e-3 at position 32,768, and a driver's sine a larger one.
 *
 * @param head_width D, even.
 * @param rotation base: the model's `rope.freq_base`, above 0; factors: D/2 divisors of the frequencies, null for none.
 * @param positions T: positions 0 to T − 1 are in the table.
 * @throws {ShapeError} When D is odd.
 */
export function ropeTable(
  head_width: number,
  { base, factors = null }: { base: number; factors?: ArrayLike<number> | null },
  positions: number,
): RopeTable {
  const shape = ropeTableShape(head_width, positions), [, half] = shape;
  const cosines = new Float32Array(positions * half), sines = new Float32Array(positions * half);
  for (let i = 0; i < half; i++) {
    const frequency = base ** (-2 * i / head_width) / (factors?.[i] ?? 1);
    for (let position = 0; position < positions; position++) {
      cosines[position * half + i] = Math.cos(position * frequency);
      sines[position * half + i] = Math.sin(position * frequency);
    }
  }
  return { cosines, sines, shape };
}

/** The tensors of {@link rope}: x `[N, H, D] f32`, positions `[N] u32` below T, cosines and sines `[T, D/2] f32`. */
export interface RopeTensors {
  x: Tensor;
  positions: Tensor;
  cosines: Tensor;
  sines: Tensor;
}

/**
 * Records the rotation of every pair of every head by its row's angle, in place.
 *
 * @param options `inverse` rotates back: converts the output's gradient to the input's.
 * @throws {ShapeError} When the shapes do not match or D is odd.
 * @source Su et al., "RoFormer" (2021), equation 34.
 */
export function rope(
  recorder: Recorder,
  tensors: RopeTensors,
  { inverse, pairing = "half" }: { inverse: boolean; pairing?: RopePairing },
): void {
  const [rows, heads, width] = expectShape(tensors.x, "x", 3);
  expectMultiple(width, 2, "head width");
  expectShape(tensors.positions, "positions", [rows]);
  const [positions] = expectShape(tensors.cosines, "cosines", 2);
  for (const name of ["cosines", "sines"] as const) expectShape(tensors[name], name, [positions, width / 2]);
  // A GPU needs many threads, a software adapter few loads; the bits are the same.
  const thread_heads = deviceForm(recorder.gpu) === "lanes" ? heads : 1;
  const sign = inverse ? -1 : 1, groups = rows * ceilDiv(heads, thread_heads);
  if (pairing === "adjacent") {
    const pairs = width / 2, grid = wrappedGrid(ceilDiv(groups * pairs, THREADS));
    recorder.dispatch(adjacentKernel(), { rows, heads, thread_heads, pairs, sign }, tensors, grid);
    return;
  }
  const size = itemSize(width / 2), half_items = width / 2 / size;
  recorder.dispatch(
    kernel(size),
    { rows, heads, thread_heads, half_items, sign },
    tensors,
    wrappedGrid(ceilDiv(groups * half_items, THREADS)),
  );
}
