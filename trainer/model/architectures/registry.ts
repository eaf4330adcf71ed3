/** All architectures of this build. Reads the shape of a model from its file and checks it. */

import { ServiceError } from "../../../core/errors.ts";
import { headWidthStep, MAX_HEAD_WIDTH } from "../../../kernels/attention/attention.ts";
import type { GgufFile } from "../../formats/gguf.ts";
import { type ModelShape, tensorShapes } from "../model_shape.ts";
import type { Architecture } from "./architecture.ts";
import { gemma2 } from "./gemma2.ts";
import { llama } from "./llama.ts";
import { qwen2 } from "./qwen2.ts";
import { qwen3 } from "./qwen3.ts";

/** The architectures, by their `general.architecture` in a GGUF file. */
export const ARCHITECTURES: Readonly<Record<string, Architecture>> = { llama, qwen2, qwen3, gemma2 };

/**
 * Reads the shape of a model. Checks that the file has exactly the tensors of this shape.
 *
 * @throws {ServiceError} `not_built` for an unknown architecture, part or tensor; `format_invalid` for sizes that
 * contradict each other or that the kernels cannot take.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * import { openGguf } from "../../formats/gguf.ts";
 *
 * using file = await openGguf("fixtures/models/tiny-agent-f16.gguf");
 * const { architecture, width, heads, kv_heads, layers } = readModelShape(file);
 * assert.deepEqual([architecture, width, heads, kv_heads, layers.length], ["qwen3", 256, 8, 2, 4]);
 * assert.deepEqual(layers[0].rotation, { base: 10_000, pairing: "half", factors: null });
 * ```
 */
export function readModelShape(file: GgufFile): ModelShape {
  const architecture = file.getString("general.architecture");
  if (!Object.hasOwn(ARCHITECTURES, architecture)) {
    throw new ServiceError(
      "not_built",
      `Cannot load ${file.path}: the architecture ${architecture} is not in this build, which has ${
        Object.keys(ARCHITECTURES).join(", ")
      }`,
      { path: file.path, architecture },
    );
  }
  const shape = ARCHITECTURES[architecture]!.readShape(file);
  checkSizes(file, shape);
  refuseUnknownTensors(file, shape);
  return shape;
}

function checkSizes(file: GgufFile, shape: ModelShape): void {
  const { heads, kv_heads, head_width, width, feed_forward, vocabulary } = shape,
    layers = shape.layers.length;
  const refuse = (reason: string) => {
    throw new ServiceError("format_invalid", `Cannot load ${file.path}: ${reason}`, { path: file.path });
  };
  if (!(shape.norm_eps > 0)) refuse(`the norm's epsilon is ${shape.norm_eps}`);
  for (const { rotation, window, attention_soft_cap } of shape.layers) {
    if (rotation && !(rotation.base > 0)) refuse(`the base of rotations is ${rotation.base}`);
    if (window !== null && !(window > 0 && window < 2 ** 31)) refuse(`the window of attention is ${window}`);
    for (const cap of [attention_soft_cap, shape.logit_soft_cap]) {
      if (cap !== null && !(cap > 0 && Number.isFinite(cap))) refuse(`a soft cap is ${cap}`);
    }
  }
  if (layers < 1 || heads < 1 || kv_heads < 1 || heads % kv_heads !== 0) {
    refuse(`${layers} layers with ${heads} query heads and ${kv_heads} key/value heads do not make a model`);
  }
  // Kernels read vectors of 4. A matrices of an adapter are bound at multiples of 256 bytes: 4 ranks · 16 · 4 bytes.
  const steps = { width: 16, feed_forward: 4, head_width: headWidthStep(head_width), vocabulary: 4 };
  const sizes = { width, feed_forward, head_width, vocabulary };
  for (const [name, size] of Object.entries(sizes) as [keyof typeof sizes, number][]) {
    const step = steps[name];
    if (size < step || size % step !== 0) refuse(`${name} is ${size}, which is no multiple of ${step}`);
  }
  if (head_width > MAX_HEAD_WIDTH) refuse(`heads of ${head_width} are wider than ${MAX_HEAD_WIDTH}`);
  for (const [name, expected] of tensorShapes(shape)) {
    const { shape: found } = file.tensor(name);
    if (found.length !== expected.length || found.some((size, axis) => size !== expected[axis])) {
      refuse(`the tensor ${name} is [${found}], where the metadata asks for [${expected}]`);
    }
  }
}

/** Refuses tensors that no part uses: without them the model would compute something else. */
function refuseUnknownTensors(file: GgufFile, shape: ModelShape): void {
  const known = tensorShapes(shape);
  const unknown = [...file.tensors.keys()].filter((name) => !known.has(name));
  if (unknown.length === 0) return;
  throw new ServiceError(
    "not_built",
    `Cannot load ${file.path}: ${unknown.length} of its tensors have no place in the architecture ` +
      `${shape.architecture} as this build has it, the first of them ${unknown[0]}`,
    { path: file.path, tensors: unknown.slice(0, 20) },
  );
}

/**
 * Reads the shape of a model that this build can load: it also checks that all tensor types can be read.
 *
 * @throws {ServiceError} As {@link readModelShape}; `format_invalid` also for a tensor type that cannot be read.
 */
export function readTrainableShape(file: GgufFile): ModelShape {
  const shape = readModelShape(file);
  for (const name of tensorShapes(shape).keys()) file.tensorType(name);
  return shape;
}
