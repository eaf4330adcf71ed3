/** Reads the metadata that all Llama-like architectures have in common. */

import { ServiceError } from "../../../core/errors.ts";
import { GGUF_NAMES, LORA_TARGETS } from "../../../core/lora_targets.ts";
import type { RopePairing } from "../../../kernels/rope/rope.ts";
import type { GgufFile } from "../../formats/gguf.ts";
import { type LayerShape, layerTensorName, MODEL_TENSORS, type ModelShape } from "../model_shape.ts";

/** The default of `rope.freq_base` in GGUF. */
const ROPE_BASE = 10_000;

/** The properties in which the architectures differ. */
export interface DecoderTraits {
  pairing: RopePairing;
  /** Whether each head of the queries and keys is normalised. */
  qk_norm: boolean;
  /** Whether the converter to GGUF permutes the rows of the query and key projections. */
  qk_permuted: boolean;
}

/**
 * Reads a decoder with grouped-query attention over all keys and a feed-forward block with a SiLU gate. A projection
 * has a bias if the file has one.
 *
 * @throws {ServiceError} `not_built` for scaled or partial rotations and for mixtures of experts; `format_invalid` for
 * missing metadata.
 */
export function readDecoder(file: GgufFile, { pairing, qk_norm, qk_permuted }: DecoderTraits): ModelShape {
  const architecture = file.getString("general.architecture");
  const key = (name: string) => `${architecture}.${name}`;
  const width = file.getUint(key("embedding_length")), heads = file.getUint(key("attention.head_count"));
  const head_width = file.getUint(key("attention.key_length"), Math.floor(width / heads));
  refuseUnbuilt(file, { key, head_width });
  const rotation = {
    base: file.getFloat(key("rope.freq_base"), ROPE_BASE),
    pairing,
    factors: file.tensors.has(MODEL_TENSORS.rope_factors) ? MODEL_TENSORS.rope_factors : null,
  };
  return {
    architecture,
    width,
    heads,
    kv_heads: file.getUint(key("attention.head_count_kv"), heads),
    head_width,
    feed_forward: file.getUint(key("feed_forward_length")),
    vocabulary: file.tensor(MODEL_TENSORS.embedding).shape[0]!,
    norm_eps: file.getFloat(key("attention.layer_norm_rms_epsilon")),
    attention_scale: 1 / Math.sqrt(head_width),
    embedding_scale: 1,
    logit_soft_cap: null,
    context_length: file.getUint(key("context_length")),
    tied: !file.tensors.has(MODEL_TENSORS.output),
    qk_permuted,
    layers: Array.from({ length: layerCount(file, key("block_count")) }, (_, layer): LayerShape => ({
      rotation,
      qk_norm,
      biases: LORA_TARGETS.filter((target) =>
        file.tensors.has(layerTensorName(layer, GGUF_NAMES[target], "bias"))
      ),
      window: null,
      attention_soft_cap: null,
      activation: "silu",
      norms_after: false,
    })),
  };
}

/** The number of layers. It is checked first, because a malformed file could name any number. */
function layerCount(file: GgufFile, key: string): number {
  const layers = file.getUint(key);
  if (layers <= file.tensors.size) return layers;
  const reason =
    `block_count is ${layers}, but the file has ${file.tensors.size} tensors: it lacks its layers`;
  throw new ServiceError("format_invalid", `Cannot load ${file.path}: ${reason}`, { path: file.path });
}

function refuseUnbuilt(
  file: GgufFile,
  { key, head_width }: { key: (name: string) => string; head_width: number },
): void {
  const refuse = (part: string, details: Record<string, unknown>) => {
    const message = `Cannot load ${file.path}: ${part} are not in this build`;
    throw new ServiceError("not_built", message, { path: file.path, ...details });
  };
  const scaling = file.getString(key("rope.scaling.type"), "none");
  if (scaling !== "none") refuse(`rotations scaled by ${scaling}`, { scaling });
  const rotated = file.getUint(key("rope.dimension_count"), head_width);
  if (rotated !== head_width) {
    refuse(`rotations of ${rotated} of ${head_width} numbers of a head`, { rotated });
  }
  const experts = file.getUint(key("expert_count"), 0);
  if (experts > 0) refuse(`mixtures of ${experts} experts`, { experts });
}
