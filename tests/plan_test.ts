import assert from "node:assert/strict";
import { loadRunConfig } from "../config/check/load.ts";
import { ServiceError } from "../core/errors.ts";
import { assumedGpu } from "../kernels/assumed_gpu.ts";
import { makeHeader, SHAPE_05B, SHAPE_8B } from "../scripts/make_header.ts";
import { fixturePath } from "./fixture.ts";
import { withFolder } from "./folder.ts";
import { writePairs, writeTraces } from "./small_sft.ts";
import { type PlannedRun, planRun } from "../runs/plan/plan.ts";
import { TEXTURED, TEXTURES_OF_TENSOR } from "../trainer/engine/plan_memory.ts";

const EXAMPLE = new URL("../examples/tiny_agent_sft.toml", import.meta.url).pathname;
const ROLLOUTS_EXAMPLE = new URL("../examples/tiny_agent_grpo.toml", import.meta.url).pathname;
const PAIRS_EXAMPLE = new URL("../examples/tiny_agent_preference.toml", import.meta.url).pathname;
const RAM_BYTES = 2 ** 35;

function planned(vram_bytes: number | null, ...overrides: string[]): Promise<PlannedRun> {
  return withFolder(async (folder) => {
    const target = { card: assumedGpu(), vram_bytes, ram_bytes: RAM_BYTES }, data = `${folder}/traces.jsonl`;
    await writeTraces(data);
    return await planRun(
      await loadRunConfig(EXAMPLE, { overrides: [`sft.data=${data}`, ...overrides] }),
      target,
    );
  });
}

const post = ({ plan }: PlannedRun, name: string) =>
  plan.memory.posts.find(({ post }) => post === name)?.bytes ?? 0;

Deno.test("a plan has the contract's members, its posts and their sum", async () => {
  const { plan, refusal } = await planned(null, "training.ctx=512");
  assert.equal(refusal, null);
  const { posts, peak_bytes, host_peak_bytes, vram_budget_bytes, ram_budget_bytes } = plan.memory;
  const on_device = posts.filter(({ post }) => post !== "host_checkpoint");
  assert.equal(host_peak_bytes, posts.find(({ post }) => post === "host_checkpoint")!.bytes);
  assert.equal(on_device.length, posts.length - 1);
  assert.equal(on_device.reduce((sum, { bytes }) => sum + bytes, 0), peak_bytes);
  assert.deepEqual(posts, posts.toSorted((a, b) => b.bytes - a.bytes));
  assert.deepEqual([vram_budget_bytes, ram_budget_bytes], [null, RAM_BYTES]);
  assert.deepEqual([plan.levers_applied, plan.levers], [[], []], "a configuration is planned as written");
  assert.deepEqual(
    plan.warnings.map(({ code }) => code).sort(),
    ["no_heldout", "rows_truncated", "vram_unknown"],
  );
  const { updates, tokens_per_update, ...rest } = plan.schedule;
  assert.deepEqual(rest, { seconds_per_update: null, eta_seconds: null, calibrated: false });
  assert.ok(
    updates! > 1 && tokens_per_update > 0 && tokens_per_update <= 4096,
    JSON.stringify(plan.schedule),
  );
  assert.deepEqual(
    ["training.ctx", "training.lr", "training.weight_decay", "training.loss_chunk_rows", "run.name"]
      .map((key) => plan.sources[key]),
    ["override", "override", "default", "derived", "derived"],
  );
  assert.equal(plan.template_probe.problems.length, 0);
});

Deno.test("a rank twice as high takes twice the adapter", async () => {
  const [low, high] = [await planned(null, "lora.rank=8"), await planned(null, "lora.rank=16")];
  assert.equal(post(high, "adapters"), 2 * post(low, "adapters"));
});

function plannedPairs(...overrides: string[]): Promise<PlannedRun> {
  return withFolder(async (folder) => {
    const target = { card: assumedGpu(), vram_bytes: null, ram_bytes: RAM_BYTES },
      data = `${folder}/pairs.jsonl`;
    await writePairs(data);
    const loaded = await loadRunConfig(PAIRS_EXAMPLE, {
      overrides: [`preference.data=${data}`, ...overrides],
    });
    return await planRun(loaded, target);
  });
}

Deno.test("a preference run is planned with the adapter of its reference", async () => {
  // A and B of rank 8 on all projections of the tiny agent's 4 layers: q and o, k and v, gate, up and down.
  const C = 256, Q = 512, K = 128, F = 512, adapter = 4 * 8 * 4 * (2 * (C + Q) + 2 * (C + K) + 3 * (C + F));
  const own = await plannedPairs(), { plan, refusal } = own;
  assert.deepEqual([refusal, plan.config.run.algorithm], [null, "preference"]);
  assert.ok(plan.schedule.updates! > 1 && plan.schedule.tokens_per_update > 0, JSON.stringify(plan.schedule));
  assert.deepEqual(plan.warnings.map(({ code }) => code), ["vram_unknown"]);
  // The policy and a request's: the reference is the base model.
  assert.equal(post(own, "adapters"), 2 * adapter);
  // The two moments of a checkpoint, read from the device.
  assert.equal(post(own, "host_checkpoint"), 2 * adapter);
  const path = await fixturePath("models/tiny-agent/golden-lora/golden-lora.gguf");
  for (const [loss, adapters] of [["dpo", 3], ["ipo", 3], ["simpo", 2], ["orpo", 2]] as const) {
    const from = await plannedPairs(`preference.loss=${loss}`, `lora.init_adapter=${path}`);
    assert.equal(post(from, "adapters"), adapters * adapter, loss);
    assert.equal(post(from, "optimizer"), post(own, "optimizer"), "the reference does not learn");
    assert.equal(from.plan.sources["lora.targets"], "derived");
  }
  // Both completions of a pair lie in one micro-batch.
  const short = (tokens: number) => plannedPairs("training.ctx=512", `training.micro_batch_tokens=${tokens}`);
  assert.equal((await short(1024)).refusal, null);
  // The cache for a request is smaller than what training writes, whose memory it uses.
  assert.equal(post(own, "kv"), 0);
  await assert.rejects(short(1023), /training\.micro_batch_tokens/);
});

Deno.test("the machine's memory is compared with its budget: copies, and all of a software device with its textures", async () => {
  const gpu = assumedGpu(), software = { ...gpu, facts: { ...gpu.facts, software: true } };
  const loaded = await loadRunConfig(PAIRS_EXAMPLE);
  const refusedAt = async (card: typeof gpu, ram_bytes: number) =>
    (await planRun(loaded, { card, vram_bytes: null, ram_bytes })).refusal;
  const { memory } = (await planRun(loaded, { card: software, vram_bytes: null, ram_bytes: RAM_BYTES })).plan;
  const bytesOf = (name: string) => memory.posts.find(({ post }) => post === name)?.bytes ?? 0;
  const copies = bytesOf("host_checkpoint"), textures = bytesOf("host_textures");
  assert.equal(textures, TEXTURES_OF_TENSOR * TEXTURED.reduce((sum, name) => sum + bytesOf(name), 0));
  const needs = [[gpu, copies], [software, copies + textures + memory.peak_bytes]] as const;
  for (const [card, bytes] of needs) {
    const { plan } = await planRun(loaded, { card, vram_bytes: null, ram_bytes: RAM_BYTES });
    assert.equal(plan.memory.host_peak_bytes, bytes);
    assert.equal(await refusedAt(card, bytes), null);
    const { message, details } = (await refusedAt(card, bytes - 1))!;
    assert.match(message, /^Cannot fit the run on the device: it takes [\d.]+ [MG]iB of the machine's/);
    const { dominant_posts, ...meta } = details;
    assert.deepEqual(meta, {
      ...{ overflow_bytes: 1, vram_budget_bytes: 0, ram_budget_bytes: bytes - 1 },
      ...{ levers_applied: [], unlocks: [] },
    });
    const [largest] = card === gpu ? [{ post: "host_checkpoint", bytes: copies }] : memory.posts;
    assert.deepEqual((dominant_posts as unknown[])[0], largest);
  }
});

Deno.test("a run that does not fit a device is refused with the contract's facts and advice", async () => {
  const enough = (await planned(null)).plan.memory.peak_bytes;
  assert.equal((await planned(enough)).refusal, null);
  const { refusal } = await planned(enough - 1);
  assert.ok(refusal instanceof ServiceError);
  assert.equal(refusal.code, "out_of_memory");
  const { dominant_posts, ...details } = refusal.details;
  assert.deepEqual(details, {
    ...{ overflow_bytes: 1, vram_budget_bytes: enough - 1, ram_budget_bytes: RAM_BYTES },
    ...{ levers_applied: [], unlocks: [] },
  });
  assert.equal((dominant_posts as { post: string }[])[0]!.post, "activations");
  assert.match(
    refusal.message,
    /^Cannot fit the run on the device: it takes [\d.]+ MiB of the device's [\d.]+ MiB/,
  );
  assert.match(refusal.message, /training\.micro_batch_tokens = 1024 saves [\d.]+ MiB: with that it takes/);
  assert.match(refusal.message, /Not in this build: the optimiser in the host's memory/);
});

Deno.test("weights and adapters that a device cannot bind in one piece are planned in parts; another tensor is refused", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/8b.gguf`, card = assumedGpu(), limit_bytes = 2 ** 27;
    await makeHeader(path);
    card.facts.limits.maxStorageBufferBindingSize = limit_bytes;
    const overrides = [`model.path=${path}`, "training.ctx=4096", "lora.rank=16"];
    const loaded = await loadRunConfig(EXAMPLE, { overrides });
    const run = await planRun(loaded, { card, vram_bytes: null, ram_bytes: RAM_BYTES }), { refusal } = run;
    // Q6_K: 192 bytes of a block's numbers. The feed-forward block has one of 4 bytes for every row.
    assert.ok(SHAPE_8B.vocabulary * SHAPE_8B.width / 256 * 192 > limit_bytes);
    assert.match(refusal!.message, /binds at most 128\.0 MiB .*activations takes 227\.5 MiB/);
    assert.doesNotMatch(refusal!.message, /weight|adapter|optimizer/);
    // A and B of rank 16: q and o, k and v, gate, up and down.
    const { width: C, feed_forward: F } = SHAPE_8B, K = 1024, numbers = 16 * 32;
    const adapter_bytes = 4 * numbers * (2 * (C + C) + 2 * (C + K) + 3 * (C + F));
    assert.ok(adapter_bytes > limit_bytes);
    assert.equal(post(run, "adapters") % adapter_bytes, 0);
  });
});

Deno.test("0.5B in F16 is planned on a device that binds 128 MiB, with no more weights than on any other", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/05b.gguf`;
    await makeHeader(path, "0.5b");
    const overrides = [`model.path=${path}`, "training.ctx=1024", "training.micro_batch_tokens=1024"];
    const loaded = await loadRunConfig(EXAMPLE, { overrides });
    const run = async (limit_bytes: number) => {
      const card = assumedGpu();
      Object.assign(card.facts.limits, { maxStorageBufferBindingSize: limit_bytes });
      return await planRun(loaded, { card, vram_bytes: null, ram_bytes: RAM_BYTES });
    };
    const { vocabulary: V, width: C } = SHAPE_05B, [small, large] = [await run(2 ** 27), await run(2 ** 31)];
    assert.ok(2 * V * C > 2 ** 27, "the embedding is above the limit");
    assert.equal(small.refusal, null);
    assert.equal(post(small, "weights"), post(large, "weights"));
  });
});

Deno.test("the weights of 0.5B in Q4_K_M are planned in the types that llama.cpp takes for rows of 896", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/05b.gguf`;
    await makeHeader(path, "0.5b-q4_k_m");
    const run = await planned(null, `model.path=${path}`, "training.ctx=1024");
    assert.equal(run.refusal, null);
    const { width: C, feed_forward: F, vocabulary: V } = SHAPE_05B, K = 128, layers = 24, half = layers / 2;
    // Bytes of a block on the device. Of 32 values: Q8_0 32 and 4 of scales, Q5_0 20 and 4. Of 256: as for 8B.
    const q8 = V * C + half * K * C, q5 = layers * (2 * C * C + K * C + 2 * F * C) + half * K * C;
    const matrices = (q8 * 36 + q5 * 24) / 32 + half * F * C * (152 + 212) / 256;
    // Two norms and three biases in each layer, the last norm, and the rotations of every position.
    const vectors = layers * (2 * C + C + 2 * K) + C + 2 * 1024 * 32;
    assert.equal(post(run, "weights"), matrices + 4 * vectors);
  });
});

Deno.test("the plan of 1.5B in Q4_K_M at a context of 4096 fits 4 GiB", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/1.5b.gguf`;
    await makeHeader(path, "1.5b-q4_k_m");
    const overrides = [`model.path=${path}`, "training.ctx=4096", "lora.rank=16"];
    const run = await planned(4 * 2 ** 30, ...overrides, "training.gradient_checkpointing=true");
    assert.equal(run.refusal, null);
    // The posts are those of training: what sampling needs is smaller, and lies in the same memory.
    assert.deepEqual([post(run, "activations") > 2 ** 30, post(run, "kv")], [true, 0]);
  });
});

Deno.test("the plan of 8B in Q4_K_M at a context of 4096 fits 12 GiB with gradient checkpointing, and says so without", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/8b.gguf`;
    await makeHeader(path);
    const overrides = [`model.path=${path}`, "training.ctx=4096", "lora.rank=16"];
    const run = await planned(12 * 2 ** 30, ...overrides);
    // Bytes of a block of 256 on the device: Q4_K 128 and 24 of scales, Q6_K 192 and 20; rotations and norms are f32.
    const { width: C, feed_forward: F, vocabulary: V } = SHAPE_8B, K = 1024, layers = 32, q6_layers = 16;
    const q6 = V * C + q6_layers * (K * C + F * C);
    const all = 2 * V * C + layers * (2 * C * C + 2 * K * C + 3 * F * C);
    const vectors = (2 * layers + 1) * C + 2 * 4096 * 64;
    assert.equal(post(run, "weights"), ((all - q6) * 152 + q6 * 212) / 256 + 4 * vectors);
    assert.match(run.refusal!.message, /activations 3\d\.\d GiB, weights 4\.\d GiB/);
    assert.match(
      run.refusal!.message,
      /training\.gradient_checkpointing = true saves 32\.\d GiB and takes/,
    );
    assert.match(run.refusal!.message, /Not in this build: the optimiser in the host's memory/);
    // The activations of every layer but one: of 4096 rows and room to begin two tiles of 32 anew.
    const computed = await planned(12 * 2 ** 30, ...overrides, "training.gradient_checkpointing=true");
    assert.equal(computed.refusal, null);
    const rows = 4096 + 2 * 32, heads = 32;
    const layer = 4 * (3 * C + 2 + heads + 2 * C + 2 * K + 3 * F + 7 * 16);
    // Of layers + 1 arrays of hidden states in f32 two stay, and the others become halves.
    const stream = 4 * C - 2 * C;
    assert.equal(
      post(run, "activations") - post(computed, "activations"),
      (layers - 1) * (layer + stream) * rows,
    );
  });
});

Deno.test("rollouts of 8B fit 12 GiB with four attempts at a time, those of 1.5B 4 GiB with eight", async () => {
  await withFolder(async (folder) => {
    for (const [name, attempts, gib] of [["8b", 4, 12], ["1.5b-q4_k_m", 8, 4]] as const) {
      const path = `${folder}/${name}.gguf`, vram_bytes = gib * 2 ** 30;
      await makeHeader(path, name);
      const overrides = [
        ...[
          `model.path=${path}`,
          "training.ctx=4096",
          "lora.rank=16",
          "training.gradient_checkpointing=true",
        ],
        `agent.concurrent_rollouts=${attempts}`,
      ];
      const loaded = await loadRunConfig(ROLLOUTS_EXAMPLE, { overrides });
      const { plan, refusal } = await planRun(loaded, {
        card: assumedGpu(),
        vram_bytes,
        ram_bytes: RAM_BYTES,
      });
      assert.equal(refusal, null, name);
      assert.ok(
        plan.memory.posts.some(({ post, bytes }) => post === "kv" && bytes > 2 ** 30),
        "sampling is the peak",
      );
    }
  });
});
