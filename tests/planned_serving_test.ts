/** The memory of a process that serves a model: what is planned, what the engine allocates, and what does not fit. */

import assert from "node:assert/strict";
import { ServiceError } from "../core/errors.ts";
import { PAGE_TOKENS } from "../core/kv_pages.ts";
import { LORA_TARGETS } from "../core/lora_targets.ts";
import { openGpu } from "../kernels/device.ts";
import { gpuTest } from "../kernels/gpu_testing.ts";
import { planServing, SERVED_SEQUENCES, servedSizes, type ServingDemand } from "../runs/plan/plan_serving.ts";
import { planServedMemory } from "../trainer/engine/plan_memory.ts";
import { openGgufHeader } from "../trainer/formats/gguf.ts";
import { assumedGpu } from "../kernels/assumed_gpu.ts";
import { fixturePath } from "./fixture.ts";
import { openEngine } from "./golden/golden.ts";

const MODEL = "models/tiny-agent-f16.gguf", RANK = 16;

async function demandOf(...contexts: number[]): Promise<ServingDemand> {
  const path = await Deno.realPath(await fixturePath(MODEL));
  return {
    path,
    compute: "f32",
    kv: "f32",
    micro_batch_tokens: 512,
    loss_chunk_rows: 64,
    contexts,
    rank: RANK,
  };
}

const lora = { rank: RANK, alpha: RANK, targets: [...LORA_TARGETS] };

const sumOf = (bytes: Readonly<Record<string, number>>) =>
  Object.values(bytes).reduce((sum, size) => sum + size, 0);

gpuTest("a process that serves a model allocates what its plan says", async () => {
  const demand = await demandOf(512),
    plan = { max_context: 512, sequences: 4 },
    sizes = servedSizes(demand, plan);
  const gpu = await openGpu({ device: "auto", webgpu: "auto" });
  gpu.device.destroy();
  using file = await openGgufHeader(demand.path);
  const planned = planServedMemory(file, { sizes, lora, adapters: plan.sequences }, gpu);
  const { client, close } = await openEngine(demand.path, sizes);
  try {
    const open = async (i: number) => {
      await client.call("adapter_open", { adapter: `${i}`, source: { type: "init", lora, seed: i } });
      const sequence = client.newSequence();
      await client.call("sequence_open", { sequence, adapter: `${i}`, parent: null, tokens: [1, 2, 3] });
      const sampling = { temperature: 0, top_p: 1, top_k: 0, rng_key: [0, 0] as const, mask: null };
      const blocks = client.generate({ sequence, max_tokens: 2, stop_tokens: [], sampling } as never);
      for await (const _ of blocks);
    };
    for (let i = 0; i < plan.sequences; i++) await open(i);
    const { bytes } = await client.call("counters", null);
    const [says, takes] = [sumOf(planned.bytes), sumOf(bytes)];
    assert.ok(takes <= says && says <= 1.1 * takes, `planned ${says}, allocated ${takes} bytes`);
  } finally {
    await close();
  }
});

Deno.test("as many sequences are sampled at once as the memory has room for", async () => {
  const demand = await demandOf(4096, 1024), card = assumedGpu();
  using file = await openGgufHeader(demand.path);
  const postsOf = (sequences: number, max_context = 4096) =>
    planServedMemory(file, {
      sizes: servedSizes(demand, { max_context, sequences }),
      lora,
      adapters: sequences,
    }, card)
      .bytes;
  const planFor = (vram_bytes: number | null) =>
    planServing({ demand, target: { card, vram_bytes, ram_bytes: 1 } });
  const of = (key: string) => file.getUint(`${file.getString("general.architecture")}.${key}`);
  const heads = of("attention.head_count_kv"),
    layers = of("block_count"),
    head_width = of("attention.key_length");
  // Keys and values in f32, for four sequences and a page more of each. While the cache grows to twice its size, the old
  // bytes of one of its tensors are there too.
  const four = 4 * (4096 + PAGE_TOKENS) * 2 * 4 * layers * heads * head_width;
  assert.equal(postsOf(8).kv! - postsOf(4).kv!, four * (1 + 1 / (4 * layers)));
  const full = sumOf(postsOf(8));
  assert.deepEqual(await planFor(null), { max_context: 4096, sequences: SERVED_SEQUENCES });
  assert.deepEqual(await planFor(full), { max_context: 4096, sequences: 8 });
  assert.deepEqual(await planFor(full - 1), { max_context: 4096, sequences: 4 });
  assert.deepEqual(await planFor(sumOf(postsOf(1))), { max_context: 4096, sequences: 1 });
  assert.equal((await planFor(sumOf(postsOf(1)) - 1)).max_context, 1024, "the run's own context");
  const least = sumOf(postsOf(1, 1024));
  await assert.rejects(planFor(least - 1000), (error: ServiceError) => {
    const { dominant_posts, ...details } = error.details as {
      dominant_posts: { post: string; bytes: number }[];
    };
    assert.deepEqual([error.code, details], ["out_of_memory", {
      overflow_bytes: 1000,
      vram_budget_bytes: least - 1000,
      ram_budget_bytes: 1,
      levers_applied: [],
      unlocks: [],
    }]);
    assert.equal(dominant_posts.length, 3);
    assert.equal(dominant_posts[0]!.bytes, Math.max(...Object.values(postsOf(1, 1024))));
    return true;
  });
});
