import { deepEqual, equal, rejects } from "node:assert/strict";
import { ServiceError } from "../../../core/errors.ts";
import { fixturePath } from "../../../tests/fixture.ts";
import { openGguf } from "../../formats/gguf.ts";
import type { GgufMetadata, GgufValue } from "../../formats/gguf_values.ts";
import { writeGguf } from "../../formats/gguf_writer.ts";
import { type ModelShape, tensorShapes } from "../model_shape.ts";
import { TEST_LAYER, testShape } from "../model_testing.ts";
import { ARCHITECTURES, readModelShape } from "./registry.ts";

const STRICT = { sanitizeOps: true, sanitizeResources: true };

const SMALL = testShape(1, {});

const uint = (value: number): GgufValue => ({ type: "uint32", value });
const float = (value: number): GgufValue => ({ type: "float32", value });

function metadataOf(shape: ModelShape): GgufMetadata {
  const name = shape.architecture;
  return new Map<string, GgufValue>([
    ["general.architecture", { type: "string", value: shape.architecture }],
    [`${name}.block_count`, uint(shape.layers.length)],
    [`${name}.context_length`, uint(shape.context_length)],
    [`${name}.embedding_length`, uint(shape.width)],
    [`${name}.feed_forward_length`, uint(shape.feed_forward)],
    [`${name}.attention.head_count`, uint(shape.heads)],
    [`${name}.attention.head_count_kv`, uint(shape.kv_heads)],
    [`${name}.attention.key_length`, uint(shape.head_width)],
    [`${name}.attention.layer_norm_rms_epsilon`, float(shape.norm_eps)],
    [`${name}.rope.freq_base`, float(shape.layers[0]?.rotation?.base ?? 10_000)],
  ]);
}

/** Writes a file of zeros with the tensors of a shape, after `change`, and reads its shape. */
async function shapeOf(
  shape: ModelShape,
  change: (metadata: GgufMetadata, tensors: Map<string, number[]>) => void = () => {},
): Promise<ModelShape> {
  const metadata = metadataOf(shape), tensors = tensorShapes(shape);
  change(metadata, tensors);
  const path = await Deno.makeTempFile({ suffix: ".gguf" });
  try {
    await writeGguf(path, {
      metadata,
      tensors: [...tensors].map(([name, dims]) => ({
        ...{ name, type: "F32" as const, shape: dims },
        pieces: () => [new Uint8Array(4 * dims.reduce((a, b) => a * b))],
      })),
    });
    using file = await openGguf(path);
    return readModelShape(file);
  } finally {
    await Deno.remove(path);
  }
}

async function refused(shape: Promise<ModelShape>, code: string, pattern: RegExp): Promise<void> {
  await rejects(shape, (error) => {
    return error instanceof ServiceError && error.code === code && pattern.test(error.message) &&
      error.message.startsWith(`Cannot load ${error.details.path}: `);
  });
}

Deno.test({
  name: "the tiny agent's shape is its README's",
  ...STRICT,
  async fn() {
    using file = await openGguf(await fixturePath("models/tiny-agent-f16.gguf"));
    const sizes = { width: 256, heads: 8, kv_heads: 2, head_width: 64, feed_forward: 512, vocabulary: 1024 };
    deepEqual(readModelShape(file), testShape(4, { ...sizes, context_length: 1024 }));
    equal(tensorShapes(readModelShape(file)).size, 47);
  },
});

Deno.test({
  name: "a count of layers above that of the tensors is refused before anything is listed",
  ...STRICT,
  fn: () =>
    refused(
      shapeOf(SMALL, (metadata) => metadata.set("qwen3.block_count", uint(2 ** 31))),
      "format_invalid",
      /block_count is 2147483648, but the file has \d+ tensors/,
    ),
});

Deno.test({
  name: "what a file leaves out has the format's defaults, and a missing output matrix is the embedding",
  ...STRICT,
  async fn() {
    deepEqual(await shapeOf(SMALL), SMALL);
    const tied = { ...SMALL, heads: 4, kv_heads: 4, tied: true };
    const found = await shapeOf(tied, (metadata) => {
      for (const key of ["attention.head_count_kv", "attention.key_length", "rope.freq_base"]) {
        metadata.delete(`qwen3.${key}`);
      }
    });
    deepEqual(found, tied);
  },
});

Deno.test({
  name: "what is not built is refused by name",
  ...STRICT,
  async fn() {
    const other = shapeOf(SMALL, (metadata) => {
      metadata.set("general.architecture", { type: "string", value: "mamba" });
    });
    const built = Object.keys(ARCHITECTURES).join(", ");
    await refused(
      other,
      "not_built",
      RegExp(`the architecture mamba is not in this build, which has ${built}$`),
    );
    const scaled = (type: string) =>
      shapeOf(
        SMALL,
        (metadata) => void metadata.set("qwen3.rope.scaling.type", { type: "string", value: type }),
      );
    await refused(scaled("yarn"), "not_built", /rotations scaled by yarn are not in this build$/);
    deepEqual(await scaled("none"), SMALL);
    const part = shapeOf(SMALL, (metadata) => void metadata.set("qwen3.rope.dimension_count", uint(4)));
    await refused(part, "not_built", /rotations of 4 of 8 numbers of a head are not in this build$/);
    const experts = shapeOf(SMALL, (metadata) => void metadata.set("qwen3.expert_count", uint(8)));
    await refused(experts, "not_built", /mixtures of 8 experts are not in this build$/);
    const more = shapeOf(SMALL, (_, tensors) => void tensors.set("blk.0.attn_gate.weight", [4, 4]));
    await refused(
      more,
      "not_built",
      /1 of its tensors have no place .* qwen3 .* of them blk\.0\.attn_gate\.weight$/,
    );
  },
});

Deno.test({
  name: "architectures differ in their norms, biases and pairs, and the file says which biases there are",
  ...STRICT,
  async fn() {
    const qwen2 = testShape(2, {
      architecture: "qwen2",
      layers: [["q_proj", "k_proj", "v_proj"] as const, ["v_proj"] as const].map((biases) => ({
        ...{ ...TEST_LAYER, qk_norm: false, biases },
      })),
    });
    deepEqual(await shapeOf(qwen2), qwen2);
    const rotation = { base: 500_000, pairing: "adjacent", factors: "rope_freqs.weight" } as const;
    const layer = { ...TEST_LAYER, rotation, qk_norm: false };
    const llama = testShape(2, { architecture: "llama", qk_permuted: true, layers: [layer, layer] });
    deepEqual(await shapeOf(llama), llama);
  },
});

/** A gemma2 of two layers with the values that its file says. */
const GEMMA2 = testShape(2, {
  ...{ architecture: "gemma2", tied: true, embedding_scale: Math.sqrt(32), logit_soft_cap: 10 },
  layers: [7, null].map((window) => ({
    ...{ ...TEST_LAYER, qk_norm: false, window, attention_soft_cap: 20 },
    ...{ activation: "gelu_tanh" as const, norms_after: true },
  })),
});

function gemma2Metadata(metadata: GgufMetadata): void {
  metadata.set("gemma2.attention.sliding_window", uint(7));
  metadata.set("gemma2.attn_logit_softcapping", float(20)).set("gemma2.final_logit_softcapping", float(10));
}

Deno.test({
  name: "gemma2's windows alternate, its caps and its window have defaults, and the 27B scales otherwise",
  ...STRICT,
  async fn() {
    deepEqual(await shapeOf(GEMMA2, gemma2Metadata), GEMMA2);
    const silent = await shapeOf(GEMMA2);
    deepEqual(silent.layers.map(({ window }) => window), [4096, null]);
    deepEqual([silent.layers[1]!.attention_soft_cap, silent.logit_soft_cap], [50, 30]);
    const large = { ...GEMMA2, width: 64, layers: Array.from({ length: 46 }, () => GEMMA2.layers[1]!) };
    equal((await shapeOf(large, gemma2Metadata)).attention_scale, 1 / Math.sqrt(64 / 4));
  },
});

Deno.test({
  name: "a window or a soft cap that is none is refused",
  ...STRICT,
  async fn() {
    const claims = (key: string, value: GgufValue, pattern: RegExp) =>
      refused(
        shapeOf(GEMMA2, (metadata) => void metadata.set(`gemma2.${key}`, value)),
        "format_invalid",
        pattern,
      );
    await claims("attention.sliding_window", uint(0), /the window of attention is 0$/);
    await claims("attn_logit_softcapping", float(0), /a soft cap is 0$/);
    await claims("final_logit_softcapping", float(-1), /a soft cap is -1$/);
    const lacks = shapeOf(GEMMA2, (_, tensors) => void tensors.delete("blk.1.post_ffw_norm.weight"));
    await rejects(lacks, /the tensor blk\.1\.post_ffw_norm\.weight is missing/);
  },
});

Deno.test({
  name: "a shape that contradicts itself or its tensors is refused with the place",
  ...STRICT,
  async fn() {
    const bad = (pattern: RegExp, shape: Partial<ModelShape>) =>
      refused(shapeOf({ ...SMALL, ...shape }), "format_invalid", pattern);
    await bad(/1 layers with 4 query heads and 3 key\/value heads/, { kv_heads: 3 });
    await bad(/0 layers/, { layers: [] });
    await bad(/width is 40, which is no multiple of 16/, { width: 40 });
    await bad(/feed_forward is 42, which is no multiple of 4/, { feed_forward: 42 });
    await bad(/vocabulary is 30, which is no multiple of 4/, { vocabulary: 30 });
    await bad(/head_width is 6, which is no multiple of 4/, { head_width: 6 });
    await bad(/head_width is 240, which is no multiple of 64/, { head_width: 240 });
    await bad(/heads of 320 are wider than 256/, { head_width: 320 });
    equal((await shapeOf({ ...SMALL, head_width: 256, attention_scale: 1 / 16 })).head_width, 256);
    await bad(/the norm's epsilon is 0/, { norm_eps: 0 });
    const rotation = { base: -1, pairing: "half" as const, factors: null };
    await bad(/the base of rotations is -1/, { layers: [{ ...TEST_LAYER, rotation }] });
    const claims = (key: string, value: GgufValue, pattern: RegExp) =>
      refused(shapeOf(SMALL, (metadata) => void metadata.set(key, value)), "format_invalid", pattern);
    await claims(
      "qwen3.feed_forward_length",
      uint(64),
      /the tensor blk\.0\.ffn_gate\.weight is \[48,32\], where the metadata asks for \[64,32\]/,
    );
    await claims("qwen3.attention.head_count", uint(8), /the tensor blk\.0\.attn_q\.weight is \[32,32\]/);
    const lacks = shapeOf(SMALL, (_, tensors) => void tensors.delete("blk.0.attn_k_norm.weight"));
    await rejects(lacks, /the tensor blk\.0\.attn_k_norm\.weight is missing/);
    const flat = shapeOf(SMALL, (_, tensors) => void tensors.set("output_norm.weight", [32, 1]));
    await refused(
      flat,
      "format_invalid",
      /output_norm\.weight is \[32,1\], where the metadata asks for \[32\]/,
    );
    const silent = shapeOf(SMALL, (metadata) => void metadata.delete("qwen3.block_count"));
    await rejects(silent, /the metadata key qwen3\.block_count is missing/);
  },
});
