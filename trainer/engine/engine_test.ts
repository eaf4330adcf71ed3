import assert from "node:assert/strict";
import { checkedFile } from "../../core/regular_file.ts";
import { ServiceError } from "../../core/errors.ts";
import { openGpu, type OpenRequest } from "../../kernels/device.ts";
import { gpuTest } from "../../kernels/gpu_testing.ts";
import { withFolder } from "../../tests/folder.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { fixtureTokenizer } from "../../tests/vocabulary.ts";
import { EngineClient } from "../protocol/client.ts";
import { Engine } from "./engine.ts";
import { testEngine } from "./engine_contract.ts";
import type { LoadRequest, TrainingSample } from "../protocol/protocol.ts";
import { close, type ContractEngine, generate, type Generated, open, someTokens } from "./engine_testing.ts";

function newEngine(open?: typeof openGpu): { client: EngineClient; port1: MessagePort } {
  const { port1, port2 } = new MessageChannel();
  new Engine(open).serve(port1);
  return { client: new EngineClient(port2), port1 };
}

async function tinyAgent(changes: Partial<LoadRequest> = {}): Promise<LoadRequest> {
  return {
    path: await fixturePath("models/tiny-agent-f16.gguf"),
    device: { device: "auto", webgpu: "auto" },
    compute: "f32",
    kv: "f32",
    max_context: 512,
    max_sequences: 16,
    kv_tokens: 16 * 512,
    micro_batch_tokens: 512,
    loss_chunk_rows: 256,
    ...changes,
  };
}

async function openEngine(): Promise<ContractEngine> {
  const { client, port1 } = newEngine();
  const { vocabulary } = await client.call("load", await tinyAgent());
  const tokens = await fixtureTokenizer("models/tiny-agent-f16.gguf");
  return {
    client,
    logprob_tolerance: 1e-5,
    vocabulary,
    tokens,
    end: tokens.eos_id!,
    close: async () => {
      await client.close();
      port1.close();
    },
  };
}

gpuTest("numbers that were read after an error of the device are not given as an answer", async () => {
  let device: GPUDevice | null = null;
  const { client, port1 } = newEngine(async (request) => {
    const gpu = await openGpu(request);
    device = gpu.device;
    return gpu;
  });
  const submit = GPUQueue.prototype.submit;
  try {
    await client.call("load", await tinyAgent({ device: { device: "auto", webgpu: "deno" } }));
    GPUQueue.prototype.submit = function (...given) {
      submit.apply(this, given);
      const error = new GPUValidationError("it is refused");
      device!.dispatchEvent(new GPUUncapturedErrorEvent("uncapturederror", { error }));
    };
    const sample: TrainingSample = {
      ...{ tokens: Uint32Array.of(1, 2, 3), prefix_group: 0, prefix_length: 0, trajectory: 0 },
      ...{ advantages: null, old_logprobs: null, reference_logprobs: null, weights: null },
      loss_mask: Uint8Array.of(0, 1, 1),
    };
    const scored = client.call("score", { adapter: null, samples: [sample] });
    await assert.rejects(scored, { code: "internal", message: /refuses a command: it is refused/ });
  } finally {
    GPUQueue.prototype.submit = submit;
    await client.close();
    port1.close();
  }
});

gpuTest(
  "a model and an adapter are loaded as they were checked, and no other file in their place",
  async () => {
    const { client, port1 } = newEngine(), request = await tinyAgent();
    const model = await Deno.realPath(request.path);
    const adapter = await Deno.realPath(await fixturePath("models/tiny-agent/golden-lora/golden-lora.gguf"));
    const other = async (path: string) => {
      const checked = await checkedFile(path);
      return { ...checked, ino: checked.ino + 1 };
    };
    const refused = (path: string) => ({
      code: "path_not_found",
      message: `Cannot read ${path}: another file has taken its place`,
    });
    try {
      const load = { ...request, path: model };
      await assert.rejects(client.call("load", { ...load, files: [await other(model)] }), refused(model));
      await client.call("load", { ...load, files: [await checkedFile(model), await other(adapter)] });
      const source = { type: "file" as const, path: adapter };
      await assert.rejects(client.call("adapter_open", { adapter: "a", source }), refused(adapter));
    } finally {
      await client.close();
      port1.close();
    }
  },
);

gpuTest("a sequence that goes on samples with the bind groups that there are", async () => {
  const { client, port1 } = newEngine(), { createBindGroup } = GPUDevice.prototype;
  let made = 0;
  try {
    await client.call("load", await tinyAgent({ device: { device: "auto", webgpu: "deno" } }));
    const sequence = client.newSequence();
    await client.call("sequence_open", { sequence, adapter: null, parent: null, tokens: [1, 2, 3] });
    GPUDevice.prototype.createBindGroup = function (...given) {
      made++;
      return createBindGroup.apply(this, given);
    };
    const counts: number[] = [];
    for (let turn = 0; turn < 3; turn++) {
      made = 0;
      await generate({ client } as ContractEngine, { sequence, max_tokens: 24 });
      counts.push(made);
    }
    assert.ok(counts[0]! > 20, `${counts[0]} are made at first`);
    assert.equal(counts[2], 0);
  } finally {
    GPUDevice.prototype.createBindGroup = createBindGroup;
    await client.close();
    port1.close();
  }
});

gpuTest(
  "a cache that the device cannot hold names the keys that make it smaller, and the engine goes on",
  async () => {
    const { client, port1 } = newEngine(), { popErrorScope } = GPUDevice.prototype;
    const keys = /kv.*training\.ctx.*agent\.concurrent_rollouts.*agent\.max_trajectory_tokens/;
    try {
      const huge = await tinyAgent({ kv_tokens: 2 ** 26 });
      await assert.rejects(client.call("load", huge), { code: "out_of_memory", message: keys });
      let scopes = 0;
      // The second scope of a load is that of the cache and the trainer; the device says that it is full.
      GPUDevice.prototype.popErrorScope = async function () {
        const error = await popErrorScope.call(this);
        return ++scopes === 2 ? new GPUOutOfMemoryError("full") : error;
      };
      await assert.rejects(client.call("load", await tinyAgent()), {
        code: "out_of_memory",
        message: /^Cannot load .*: the device has no more memory \(\w+ \d+\.\d\d GiB, .*\. For /,
      });
      GPUDevice.prototype.popErrorScope = popErrorScope;
      assert.equal((await client.call("load", await tinyAgent())).layers, 4);
    } finally {
      GPUDevice.prototype.popErrorScope = popErrorScope;
      await client.close();
      port1.close();
    }
  },
);

gpuTest(
  "room for what a run will ask for is made at loading, nothing more by a step or a divergence, and adapters beyond it are refused",
  async () => {
    const { client, port1 } = newEngine(), lora = { rank: 8, alpha: 8, targets: ["q_proj" as const] };
    const bytes = async () => (await client.call("counters", null)).bytes;
    try {
      const demand = { lora, other_adapters: 0, targets: 40, divergence: true, keeps_state: true };
      await client.call("load", await tinyAgent({ micro_batch_tokens: 64, max_context: 64, demand }));
      const loaded = await bytes();
      await client.call("adapter_open", { adapter: "policy", source: { type: "init", lora, seed: 1 } });
      await assert.rejects(
        client.call("adapter_open", { adapter: "other", source: { type: "init", lora, seed: 1 } }),
        { code: "conflict", message: /"other": 1 are open, the most that this run has room for/ },
      );
      const tokens = Uint32Array.from(someTokens(5, 41));
      const sample: TrainingSample = {
        ...{ tokens, prefix_group: 0, prefix_length: 0, trajectory: 0, advantages: null, old_logprobs: null },
        ...{ loss_mask: Uint8Array.from(tokens, (_, i) => Number(i > 0)), weights: null },
        reference_logprobs: null,
      };
      const betas = { beta1: 0.9, beta2: 0.9, eps: 1e-8, weight_decay: 0, max_grad_norm: 1 };
      await client.call("train_step", {
        ...{ adapter: "policy", samples: [sample], loss: { type: "sft", normalizer: 40 } },
        optimizer: { learning_rate: 1e-3, ...betas },
      });
      await client.call("divergence", { adapter: "policy", from: null, samples: [sample] });
      const { adapters, optimizer, ...used } = await bytes();
      const { optimizer: before, ...room } = loaded;
      assert.deepEqual(used, room);
      assert.deepEqual([optimizer! - before!, "adapters" in room], [3 * adapters!, false]);
    } finally {
      await client.close();
      port1.close();
    }
  },
);

testEngine("engine on the device", openEngine);

gpuTest(
  "the cache has the bytes of the tokens there are, and gives them to the trainer when no sequence needs them",
  async () => {
    const engine = await openEngine(),
      { client } = engine,
      lora = { rank: 4, alpha: 8, targets: ["q_proj" as const] };
    const bytes = async () => {
      const { kv = 0, activations = 0 } = (await client.call("counters", null)).bytes;
      return { kv, activations };
    };
    // Keys and values of 4 layers with 2 heads of 64 numbers in f32, for pages of 32 tokens.
    const page_bytes = 2 * 4 * 2 * 64 * 4 * 32;
    const sample: TrainingSample = {
      ...{ tokens: Uint32Array.from(someTokens(5, 41)), prefix_group: 0, prefix_length: 0, trajectory: 0 },
      ...{ advantages: null, old_logprobs: null, reference_logprobs: null, weights: null },
      loss_mask: new Uint8Array(41).fill(1, 1),
    };
    const score = () => client.call("score", { adapter: "policy", samples: [sample] });
    const sampling = { temperature: 1, rng_key: [8, 8] as const };
    try {
      await client.call("adapter_open", { adapter: "policy", source: { type: "init", lora, seed: 1 } });
      assert.deepEqual(await bytes(), { kv: 0, activations: 0 });
      const alone = await open(engine, someTokens(3, 70));
      const expected = await generate(engine, { sequence: alone, max_tokens: 12, sampling });
      assert.deepEqual(await bytes(), { kv: 64 * page_bytes, activations: 0 });
      const scored = await score();
      assert.equal((await bytes()).kv, 64 * page_bytes, "a sequence has pages");
      await close(engine, alone);
      assert.deepEqual(await score(), scored);
      const { kv, activations } = await bytes();
      assert.deepEqual([kv, activations > 0], [0, true]);
      const again = await open(engine, someTokens(3, 70));
      assert.deepEqual(await generate(engine, { sequence: again, max_tokens: 12, sampling }), expected);
      assert.deepEqual(await bytes(), { kv: 64 * page_bytes, activations: 0 });
      // All of 16 · 512 tokens: more than ever needed at a time before.
      const long = await Promise.all(Array.from({ length: 15 }, (_, i) => open(engine, someTokens(i, 500))));
      await Promise.all(long.map((sequence) => generate(engine, { sequence, max_tokens: 2, sampling })));
      assert.equal((await bytes()).kv, 256 * page_bytes);
      const next = await generate(engine, { sequence: again, max_tokens: 4, sampling });
      await close(engine, ...long, again);
      await score();
      const whole = await open(engine, someTokens(3, 70));
      await generate(engine, { sequence: whole, max_tokens: 12, sampling });
      assert.deepEqual(await generate(engine, { sequence: whole, max_tokens: 4, sampling }), next);
    } finally {
      await engine.close();
    }
  },
);

gpuTest(
  "sequences that begin alike share complete pages, run them once, and sample what they would alone",
  async () => {
    const engine = await openEngine(), { client } = engine;
    try {
      const system = someTokens(3, 70), sampling = { temperature: 1, rng_key: [8, 8] as const };
      const alone = await open(engine, [...system, 9]);
      const expected = await generate(engine, { sequence: alone, max_tokens: 12, sampling });
      await close(engine, alone);
      const before = await client.call("counters", null);
      const sequences = await Promise.all([9, 9, 10].map((token) => open(engine, [...system, token])));
      const held = await client.call("counters", null);
      // Two full pages in common, and of each sequence one page for its last 7 tokens.
      assert.equal(held.kv_pages_used - before.kv_pages_used, 2 + 3);
      const generated = await Promise.all(
        sequences.map((sequence) => generate(engine, { sequence, max_tokens: 12, sampling })),
      );
      const after = await client.call("counters", null);
      assert.equal(after.prefill_tokens - before.prefill_tokens, 64 + 3 * 7);
      assert.deepEqual(generated[0], expected);
      assert.deepEqual(generated[1], expected);
      await close(engine, ...sequences);
      assert.equal((await client.call("counters", null)).kv_pages_used, before.kv_pages_used);
    } finally {
      await engine.close();
    }
  },
);

/** What a member sampled after its group's prompt, as a sample that trains it. */
function memberSample(prompt: number[], { tokens }: Generated, place: { group: number; trajectory: number }) {
  const all = Uint32Array.from([...prompt, ...tokens]);
  return {
    ...{ tokens: all, prefix_group: place.group, prefix_length: prompt.length, trajectory: place.trajectory },
    loss_mask: Uint8Array.from(all, (_, t) => t >= prompt.length ? 1 : 0),
    ...{ advantages: null, old_logprobs: null, reference_logprobs: null, weights: null },
  } satisfies TrainingSample;
}

gpuTest("the trainer scores members of a shared prompt as the sampler scored them", async (gpu) => {
  const engine = await openEngine(), { client } = engine;
  try {
    const adapter = "policy", lora = { rank: 4, alpha: 8, targets: ["q_proj" as const, "o_proj" as const] };
    await client.call("adapter_open", { adapter, source: { type: "init", lora, seed: 3 } });
    const trained = memberSample([1], { tokens: someTokens(5, 30), logprobs: [], stop: null }, {
      ...{ group: 0, trajectory: 0 },
    });
    const optimizer = { learning_rate: 0.01, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0 };
    await client.call("train_step", {
      ...{ adapter, samples: [trained], loss: { type: "sft", normalizer: 30 } },
      optimizer: { ...optimizer, max_grad_norm: 0 },
    });
    const samples: TrainingSample[] = [], generated: Generated[] = [];
    // Lengths around pages of 32, subgroups of 4, 8 and 16, and the token that each member runs for itself.
    for (const [group, length] of [2, 9, 31, 33, 37, 64, 65, 66, 71, 110].entries()) {
      const prompt = someTokens(group, length), parent = await open(engine, prompt, { adapter });
      const members = await Promise.all([0, 1, 2].map(() => open(engine, [], { parent, adapter })));
      const generations = members.map((sequence, m) =>
        generate(engine, {
          sequence,
          max_tokens: 9 + 14 * m,
          sampling: { temperature: 1, rng_key: [group, m] },
        })
      );
      for (const one of await Promise.all(generations)) {
        samples.push(memberSample(prompt, one, { group, trajectory: samples.length }));
        generated.push(one);
      }
      await close(engine, ...members, parent);
    }
    const { logprobs } = await client.call("score", { adapter, samples });
    const differences = logprobs.map((row, s) =>
      Math.max(...row.map((lp, i) => Math.abs(lp - generated[s]!.logprobs[i]!)))
    );
    // On software adapters equal sums give equal bits; a GPU's compiler may join operations differently in two kernels.
    const most = gpu.facts.software ? 0 : engine.logprob_tolerance;
    assert.ok(Math.max(...differences) <= most, `largest differences of each member: ${differences}`);
  } finally {
    await engine.close();
  }
});

gpuTest(
  "nobody takes hardware from a run of another program, and a software adapter is shared",
  () =>
    withFolder(async (folder) => {
      const hardware = { name: "GPU", software: false, webgpu: "deno" } as const;
      let opened = 0;
      const openUntaken = async ({ device, webgpu }: OpenRequest) => {
        opened++;
        const gpu = await openGpu({ device, webgpu });
        return { ...gpu, facts: { ...gpu.facts, ...hardware } };
      };
      const asHardware = async (request: OpenRequest) => {
        await request.take!(hardware);
        return await openUntaken(request);
      };
      const asFull = async ({ take }: OpenRequest) => {
        await take!(hardware);
        throw new ServiceError("out_of_memory", "Cannot test the device: it is full");
      };
      const open_engines = new Set<() => Promise<void>>();
      const load = async (owner: string, open: typeof openGpu = asHardware) => {
        const { client, port1 } = newEngine(open);
        const close = async () => {
          open_engines.delete(close);
          await client.close();
          port1.close();
        };
        open_engines.add(close);
        const claim = { folder: `${folder}/devices`, owner, pid: 1, use: "run", run: owner } as const;
        await client.call("load", await tinyAgent({ claim }));
        return close;
      };
      const taken = { code: "device_unavailable", message: /^Cannot use GPU: .* \(a\), has it/ };
      try {
        const first = await load("a"), second = await load("a");
        await assert.rejects(load("b"), taken);
        assert.equal(opened, 2, "it is not opened before it is taken");
        await assert.rejects(load("b", openUntaken), taken, "a probe opened it before");
        await load("b", openGpu);
        await first();
        await assert.rejects(load("b"), taken, "another engine of the owner has it");
        await second();
        await assert.rejects(load("a", asFull), { code: "out_of_memory" });
        await load("b");
      } finally {
        for (const close of open_engines) await close();
      }
    }),
);
