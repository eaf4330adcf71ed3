import assert from "node:assert/strict";
import { LORA_TARGETS, type LoraTarget } from "../../core/lora_targets.ts";
import { assumedGpu } from "../../kernels/assumed_gpu.ts";
import type { Gpu } from "../../kernels/device.ts";
import { gpuTest } from "../../kernels/gpu_testing.ts";
import { SCRATCH_BYTES } from "../../kernels/recorder.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { withFolder } from "../../tests/folder.ts";
import { writeGemma2 } from "../../tests/golden/gemma2_model.ts";
import { DECODED_TYPES, type DecodedType } from "../formats/ggml_types.ts";
import { openGguf } from "../formats/gguf.ts";
import { type GgufTensorSource, writeGguf } from "../formats/gguf_writer.ts";
import { encodeTensor } from "../formats/encode_tensor_testing.ts";
import { loadModel } from "../model/load_model.ts";
import type { Model } from "../model/transformer.ts";
import { Batcher } from "../sampler/batcher.ts";
import { Adapters } from "./adapters.ts";
import { createParts, prefillTokens } from "./engine_parts.ts";
import { unbindableProblem } from "./memory_advice.ts";
import type { EngineSizes } from "../protocol/protocol.ts";
import { planMemory } from "./plan_memory.ts";
import type { EngineDemand, TrainingSample } from "../protocol/protocol.ts";

/** Fixtures, with which every case is planned. */
const MODELS = [
  "stories260k",
  "tinystories-656k-llama-f16",
  "tinystories-656k-llama-q4_0",
  "tinystories-656k-llama-q8_0",
  "tinystories-656k-qwen2-f16",
  "tinystories-656k-qwen2-q8_0",
  "tiny-agent-f16",
  "tiny-agent-q8_0",
];

/** Written for the test, by name: an architecture and types of weights that no fixture has; each in a few cases. */
const WRITTEN: Readonly<Record<string, { cases: readonly string[]; write(path: string): Promise<void> }>> = {
  gemma2: {
    cases: [
      "packed micro-batches, a cache of halves, a bounded update",
      "activations computed a second time",
    ],
    write: async (path) => writeGemma2(await fixturePath("models/stories260k.gguf"), path),
  },
  "every type of weights": {
    cases: ["short context, steps of one micro-batch"],
    write: writeEveryType,
  },
};

/** The tiny agent, whose matrices have all types in turn. */
async function writeEveryType(path: string): Promise<void> {
  assert.equal((await writeTypes(path, DECODED_TYPES)).size, DECODED_TYPES.length);
}

/** The tiny agent, whose matrices have these types in turn. @returns Those that are used. */
async function writeTypes(path: string, types: readonly DecodedType[]): Promise<Set<DecodedType>> {
  using file = await openGguf(await fixturePath("models/tiny-agent-f16.gguf"));
  const tensors: GgufTensorSource[] = [], used = new Set<DecodedType>();
  let matrices = 0;
  for (const { name, shape } of file.tensors.values()) {
    const type = shape.length === 1 ? "F32" : types[matrices++ % types.length]!;
    const bytes = encodeTensor(type, await file.readFloats(name));
    tensors.push({ name, shape, type, pieces: () => [bytes] });
    used.add(type);
  }
  await writeGguf(path, { metadata: file.metadata, tensors });
  return used;
}

const OPTIMIZER = {
  learning_rate: 1e-3,
  beta1: 0.9,
  beta2: 0.99,
  eps: 1e-8,
  weight_decay: 0,
  max_grad_norm: 1,
};

/** What a run may be set to, with samples of so many tokens each in its one step. */
interface Case {
  sizes: Omit<EngineSizes, "demand">;
  lora: EngineDemand["lora"];
  other_adapters: number;
  samples: number[];
  divergence: boolean;
}

const lora = (rank: number, targets: readonly LoraTarget[]) => ({ rank, alpha: 8, targets: [...targets] });

const CASES: Readonly<Record<string, Case>> = {
  "short context, steps of one micro-batch": {
    sizes: {
      ...{ compute: "f32", kv: "f32", max_context: 40, max_sequences: 3, kv_tokens: 300 },
      ...{ micro_batch_tokens: 64, loss_chunk_rows: 64 },
    },
    ...{ lora: lora(3, ["q_proj", "down_proj"]), other_adapters: 0, samples: [40, 20], divergence: false },
  },
  "packed micro-batches, a cache of halves, a bounded update": {
    sizes: {
      ...{ compute: "f32", kv: "f16", max_context: 200, max_sequences: 9, kv_tokens: 1000 },
      ...{ micro_batch_tokens: 200, loss_chunk_rows: 100 },
    },
    ...{ lora: lora(8, LORA_TARGETS), other_adapters: 1, samples: [110, 70, 90], divergence: true },
  },
  "long context, three adapters, steps above the first room for them": {
    sizes: {
      ...{ compute: "auto", kv: "auto", max_context: 500, max_sequences: 1, kv_tokens: 2000 },
      ...{ micro_batch_tokens: 300, loss_chunk_rows: 1024 },
    },
    ...{ lora: lora(16, ["o_proj"]), other_adapters: 2, divergence: false },
    samples: [260, 280, 280, 250],
  },
  "activations computed a second time": {
    sizes: {
      ...{ compute: "auto", kv: "f16", max_context: 100, max_sequences: 3, kv_tokens: 300 },
      ...{ micro_batch_tokens: 100, loss_chunk_rows: 64, gradient_checkpointing: true },
    },
    ...{ lora: lora(4, LORA_TARGETS), other_adapters: 0, samples: [100, 60], divergence: false },
  },
};

/** Learns from every token but the first. */
function sample(tokens: number, index: number): TrainingSample {
  return {
    tokens: Uint32Array.from({ length: tokens }, (_, i) => (7 * i + index) % 300),
    ...{ prefix_group: index, prefix_length: 0, trajectory: index },
    loss_mask: Uint8Array.from({ length: tokens }, (_, i) => Number(i > 0)),
    ...{ advantages: null, old_logprobs: null, reference_logprobs: null, weights: null },
  };
}

/** The bytes of a device on which all was done that the case plans for, nothing of it reserved. */
async function allocatedBytes(gpu: Gpu, path: string, given: Case): Promise<Record<string, number>> {
  const { sizes, other_adapters, divergence } = given, folder = await Deno.makeTempDir();
  using file = await openGguf(path);
  const { model, allocator, name } = await loadModel(gpu, file, sizes);
  try {
    const { trainer, sampler } = createParts(allocator, model, sizes);
    const adapters = new Adapters(allocator, model, { base_model: name });
    await adapters.open("policy", { type: "init", lora: given.lora, seed: 1 });
    for (let i = 0; i < other_adapters; i++) {
      await adapters.open(`other ${i}`, { type: "copy", adapter: "policy" });
    }
    const policy = adapters.get("policy"), samples = given.samples.map(sample);
    const batcher = new Batcher(sampler, sizes, { sampled: () => {}, failed: () => {} });
    const sampling = { temperature: 1, top_p: 1, top_k: 0, rng_key: [1, 2] as const, mask: null };
    const sequence = batcher.open({ id: 1, adapter: policy, parent: null, tokens: [1, 2, 3] });
    batcher.generate(sequence, { sequence: 1, max_tokens: 9, stop_tokens: [], sampling });
    while (await batcher.step());
    // As many sequences as there is room for would need all pages.
    for (const share of [2, 1]) await sampler.growPages(Math.ceil(sampler.options.pages / share));
    await batcher.close(sequence);
    batcher.releaseMemory();
    const loss = { type: "sft", normalizer: 1000 } as const;
    await trainer.step(policy, samples, { loss, optimizer: OPTIMIZER });
    if (divergence) await trainer.divergence({ p: adapters.get("other 0"), q: policy }, samples.slice(0, 1));
    await adapters.saveCheckpoint("policy", folder);
    return { ...allocator.peak };
  } finally {
    model.recorder.destroy();
    allocator.destroy();
    await Deno.remove(folder, { recursive: true });
  }
}

/** The bytes of a device's textures, of all that there are at once at most. */
function followTextures(device: GPUDevice) {
  const create = device.createTexture;
  const found = { peak: 0, live: 0, restore: () => void (device.createTexture = create) };
  device.createTexture = (descriptor) => {
    const texture = create.call(device, descriptor);
    const kinds = { r: 1, rg: 2, rgba: 4 }, [, channels, bits] = /^(r|rg|rgba)(16|32)/.exec(texture.format)!;
    const bytes = texture.width * texture.height * kinds[channels as keyof typeof kinds] * Number(bits) / 8;
    found.peak = Math.max(found.peak, found.live += bytes);
    const destroy = texture.destroy.bind(texture);
    texture.destroy = () => {
      found.live -= bytes;
      return destroy();
    };
    return texture;
  };
  return found;
}

/** Compares the plan of a case with what a device allocates. */
async function compare(gpu: Gpu, path: string, name: string): Promise<void> {
  using file = await openGguf(path);
  const given = CASES[name]!, { sizes, samples, lora, other_adapters, divergence } = given;
  const targets = samples.reduce((sum, tokens) => sum + tokens - 1, 0);
  const demand = { lora, other_adapters, targets, divergence, keeps_state: divergence };
  const { bytes, host, unbindable } = planMemory(file, { ...sizes, demand }, gpu);
  const textures = followTextures(gpu.device);
  assert.deepEqual(bytes, await allocatedBytes(gpu, path, given), `${path}: ${name}`);
  textures.restore();
  if (gpu.facts.software) {
    const { host_textures = 0 } = host;
    assert.ok(0 < textures.peak && textures.peak <= host_textures, `${textures.peak} of ${host_textures}`);
    assert.equal(textures.live, 0, "textures are destroyed with their tensors");
  }
  assert.deepEqual(unbindable, []);
}

gpuTest("planned bytes are the allocated ones, to the byte, on 35 combinations", async (gpu) => {
  let combinations = 0;
  for (const model of MODELS) {
    const path = await fixturePath(`models/${model}.gguf`);
    for (const name of Object.keys(CASES)) {
      await compare(gpu, path, name);
      combinations++;
    }
  }
  await withFolder(async (folder) => {
    for (const [name, { cases, write }] of Object.entries(WRITTEN)) {
      const path = `${folder}/${name}.gguf`;
      await write(path);
      for (const name of cases) {
        await compare(gpu, path, name);
        combinations++;
      }
    }
  });
  assert.equal(combinations, 35);
});

gpuTest("planned bytes are the allocated ones on a GPU, whose products have scratch", async (gpu) => {
  // The forms of a GPU, on the device of the tests.
  const card = { ...gpu, facts: { ...gpu.facts, software: false } };
  await withFolder(async (folder) => {
    const path = `${folder}/types.gguf`;
    await writeEveryType(path);
    for (const name of ["short context, steps of one micro-batch", "activations computed a second time"]) {
      await compare(card, path, name);
      const { sizes } = CASES[name]!;
      using file = await openGguf(path);
      const [on_gpu, on_software] = [card, { ...gpu, facts: { ...gpu.facts, software: true } }].map((each) =>
        planMemory(file, sizes, each).bytes.recorder!
      );
      assert.equal(on_gpu! - on_software!, SCRATCH_BYTES);
      if (sizes.gradient_checkpointing) assert.equal(planMemory(file, sizes, card).compute, "f16");
    }
  });
});

Deno.test("a pass with given tokens has fewer of them where a token takes more memory", () => {
  const tokens = (software: boolean, width: number, feed_forward: number) =>
    prefillTokens(
      { recorder: { gpu: { facts: { software } } }, shape: { width, feed_forward } } as unknown as Model,
    );
  // 0.5B, 8B, and more than any model; a software adapter has one number.
  assert.deepEqual([tokens(false, 896, 4864), tokens(false, 4096, 14_336), tokens(false, 65_536, 262_144)], [
    ...[2048, 1088, 512],
  ]);
  assert.deepEqual([tokens(true, 896, 4864), tokens(true, 4096, 14_336)], [1024, 1024]);
});

Deno.test("operands in f16 are refused where the device has none", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/f16.gguf`,
      card = assumedGpu(),
      { sizes } = CASES["short context, steps of one micro-batch"]!;
    await writeTypes(path, ["F16"]);
    using file = await openGguf(path);
    const computed = (compute: "auto" | "f32" | "f16", features: string[]) =>
      planMemory(file, { ...sizes, compute }, { ...card, facts: { ...card.facts, features } }).compute;
    assert.deepEqual(
      [computed("f16", ["shader-f16"]), computed("auto", []), computed("f32", [])],
      ["f16", "f32", "f32"],
    );
    assert.throws(() => computed("f16", []), {
      code: "config_invalid",
      message:
        'Cannot use model.compute = "f16" on an ordinary GPU: it has no products in f16 (shader-f16); use ' +
        '"auto" or "f32"',
    });
  });
});

Deno.test("a BF16 matrix takes the bytes of an F16 one", async () => {
  await withFolder(async (folder) => {
    const weights: number[] = [];
    for (const type of ["F16", "BF16"] as const) {
      const path = `${folder}/${type}.gguf`;
      await writeTypes(path, [type]);
      using file = await openGguf(path);
      const { sizes } = CASES["short context, steps of one micro-batch"]!;
      weights.push(planMemory(file, sizes, assumedGpu()).bytes.weights!);
    }
    assert.equal(weights[1], weights[0]);
  });
});

Deno.test("a matrix of the adapter that a device cannot bind is in the plan, and its refusal names the keys", async () => {
  using file = await openGguf(await fixturePath("models/tiny-agent-f16.gguf"));
  const card = assumedGpu(), { sizes } = CASES["short context, steps of one micro-batch"]!;
  const problem = (limit_bytes: number) => {
    // On a GPU the backward pass also has a buffer of this size, for partial sums.
    Object.assign(card.facts, {
      software: true,
      limits: { ...card.facts.limits, maxStorageBufferBindingSize: limit_bytes },
    });
    const demand = {
      ...{ lora: lora(1024, ["down_proj"]), other_adapters: 0, targets: 40 },
      ...{ divergence: false, keeps_state: false },
    };
    return unbindableProblem(planMemory(file, { ...sizes, demand }, card).unbindable);
  };
  // A is [1024, 512]: 2 MiB. B is smaller: [256, 1024].
  assert.equal(problem(4 * 1024 * 512), null);
  const advice = "lower lora.rank, or name fewer lora.targets";
  assert.equal(
    problem(4 * 1024 * 512 - 4),
    "the device binds at most 2.0 MiB in one piece, and adapters (one matrix) takes 2.0 MiB, " +
      `optimizer (one matrix) takes 2.0 MiB. For adapters: ${advice}. For optimizer: ${advice}`,
  );
});

Deno.test("a kept state is planned in the machine's memory: values and moments, besides those of a checkpoint", async () => {
  using file = await openGguf(await fixturePath("models/tiny-agent-f16.gguf"));
  const { sizes, lora } = CASES["short context, steps of one micro-batch"]!;
  const copies = (keeps_state: boolean) => {
    const demand = { lora, other_adapters: 0, targets: 40, divergence: false, keeps_state };
    const { host, bytes } = planMemory(file, { ...sizes, demand }, assumedGpu());
    return host.host_checkpoint! / bytes.adapters!;
  };
  assert.deepEqual([copies(false), copies(true)], [2, 5]);
});
