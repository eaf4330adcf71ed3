/** Every type in which a matrix of weights can lie on the device, by its name in GGUF files in lower case. */

import { bf16 } from "./bf16.ts";
import { f16 } from "./f16.ts";
import { f32 } from "./f32.ts";
import { q4_0 } from "./q4_0.ts";
import { q4_1 } from "./q4_1.ts";
import { q4_k } from "./q4_k.ts";
import { q5_0 } from "./q5_0.ts";
import { q5_1 } from "./q5_1.ts";
import { q5_k } from "./q5_k.ts";
import { q6_k } from "./q6_k.ts";
import { q8_0 } from "./q8_0.ts";
import type { WeightType } from "./weight_type.ts";

/**
 * Every type that weights can have on the device, by its name.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const { block_values, block_bytes, decode } = WEIGHT_TYPES.q8_0;
 * assert.deepEqual([block_values, block_bytes], [32, 34]);
 * // A block begins with its scale in half precision, here 0.5. One signed byte for each value follows.
 * const block = new Uint8Array(block_bytes);
 * block.set([0x00, 0x38, 3, 255]);
 * assert.deepEqual([...decode(block).subarray(0, 3)], [1.5, -0.5, 0]);
 * ```
 */
export const WEIGHT_TYPES = {
  f32,
  f16,
  bf16,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q4_k,
  q5_k,
  q6_k,
} satisfies Record<string, WeightType>;

/** The name of a type of weights. */
export type WeightTypeName = keyof typeof WEIGHT_TYPES;

/** The names of the table, in its order. */
export const WEIGHT_TYPE_NAMES = Object.keys(WEIGHT_TYPES) as readonly WeightTypeName[];
