/** Adapters as GGUF files that llama.cpp loads with `--lora`. */

import { ServiceError } from "../../core/errors.ts";
import { GGUF_NAMES, targetOfGgufName } from "../../core/lora_targets.ts";
import type { CheckedFile } from "../../core/regular_file.ts";
import { type GgufFile, openGguf } from "./gguf.ts";
import type { GgufMetadata } from "./gguf_values.ts";
import { type GgufTensorSource, writeGguf } from "./gguf_writer.ts";
import {
  assembleLora,
  assertCompleteAdapter,
  loraDifference,
  type LoraFactor,
  loraOrder,
  type LoraTensors,
} from "./lora.ts";
import { formatError } from "./model_file.ts";

const TENSOR_NAME = /^blk\.(\d{1,5})\.([a-z_]+)\.weight\.lora_([ab])$/;

/** `general.name` of an adapter from a run. */
const ADAPTER_NAME = "adapter";

/** Whether a file is an adapter from a run, by `general.type`, `adapter.type` and `general.name`. */
export async function isWrittenAdapter(path: string): Promise<boolean> {
  try {
    using file = await openGguf(path);
    const is = (key: string, value: string) => file.getString(key, "") === value;
    return is("general.type", "adapter") && is("adapter.type", "lora") && is("general.name", ADAPTER_NAME);
  } catch (error) {
    if (error instanceof ServiceError) return false;
    throw error;
  }
}

/**
 * Writes an adapter as a GGUF file of F32 tensors, atomically. The file is read back and compared before it gets its
 * name.
 *
 * @source llama.cpp, `llama_adapter_lora_init_impl`: `adapter.lora.alpha`, `<tensor>.lora_a`, `<tensor>.lora_b`.
 */
export async function writeAdapter(path: string, lora: LoraTensors, name = ADAPTER_NAME): Promise<void> {
  assertCompleteAdapter(lora);
  const metadata: GgufMetadata = new Map([
    ["general.architecture", { type: "string", value: lora.architecture }],
    ["general.type", { type: "string", value: "adapter" }],
    ["general.name", { type: "string", value: name }],
    ["adapter.type", { type: "string", value: "lora" }],
    ["adapter.lora.alpha", { type: "float32", value: lora.alpha }],
  ]);
  const tensors = loraOrder(lora.layers, lora.targets).flatMap(
    ({ layer, target, key }): GgufTensorSource[] => {
      const pair = lora.tensors.get(key)!, base = `blk.${layer}.${GGUF_NAMES[target]}.weight`;
      const source = (factor: "a" | "b", shape: number[]): GgufTensorSource => ({
        name: `${base}.lora_${factor}`,
        type: "F32",
        shape,
        pieces: () => [bytesOf(pair[factor])],
      });
      return [source("a", [lora.rank, pair.in]), source("b", [pair.out, lora.rank])];
    },
  );
  await writeGguf(path, { metadata, tensors }, async (partial_path) => {
    assertReadBack(
      path,
      loraDifference({ ...lora, alpha: Math.fround(lora.alpha) }, await readAdapter(partial_path)),
    );
  });
}

/**
 * Reads an adapter from a GGUF file.
 *
 * @throws {ServiceError} `path_not_found`, or `format_invalid` for anything but a LoRA adapter of attention and
 * feed-forward projections with the same targets in every layer.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * import { loraKey } from "./lora.ts";
 *
 * // Rank 1 on q_proj of one layer: A is [1, 2], B is [3, 1].
 * const pair = { a: Float32Array.of(1, 2), b: Float32Array.of(3, 4, 5), in: 2, out: 3 };
 * const folder = await Deno.makeTempDir(), path = `${folder}/adapter.gguf`;
 * await writeAdapter(path, {
 *   ...{ architecture: "qwen3", rank: 1, alpha: 2, targets: ["q_proj"], layers: 1 },
 *   tensors: new Map([[loraKey(0, "q_proj"), pair]]),
 * });
 * assert.deepEqual((await readAdapter(path)).tensors.get(loraKey(0, "q_proj")), pair);
 * await Deno.remove(folder, { recursive: true });
 * ```
 */
export async function readAdapter(named: string | CheckedFile): Promise<LoraTensors> {
  using file = await openGguf(named);
  const { path } = file;
  const kind = `${file.getString("general.type", "model")} ${file.getString("adapter.type", "")}`;
  if (kind !== "adapter lora") {
    throw formatError(
      path,
      "it is not a LoRA adapter: general.type and adapter.type are not adapter and lora",
    );
  }
  const facts = {
    architecture: file.getString("general.architecture"),
    alpha: file.getFloat("adapter.lora.alpha"),
  };
  const factors: LoraFactor[] = [];
  for (const name of file.tensors.keys()) factors.push(await readFactor(file, name));
  return assembleLora(facts, factors, (reason) => {
    throw formatError(path, reason);
  });
}

function bytesOf({ buffer, byteOffset, byteLength }: Float32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

async function readFactor(file: GgufFile, name: string): Promise<LoraFactor> {
  const match = TENSOR_NAME.exec(name), target = match && targetOfGgufName(match[2]!);
  if (!target) {
    throw formatError(file.path, `the tensor ${name} is not one of a supported adapter`, { tensor: name });
  }
  return {
    layer: Number(match[1]),
    target,
    factor: match[3] as "a" | "b",
    shape: file.tensor(name).shape,
    values: await file.readFloats(name),
  };
}

/** Fails when the file that was read back differs. */
export function assertReadBack(path: string, difference: string | null): void {
  if (difference === null) return;
  throw new ServiceError("internal", `Cannot write ${path}: read back, it differs: ${difference}`, { path });
}
