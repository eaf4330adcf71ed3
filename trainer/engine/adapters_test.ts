import { deepEqual, equal, rejects } from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import type { LoraTarget } from "../../core/lora_targets.ts";
import { gpuTest } from "../../kernels/gpu_testing.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { withFolder } from "../../tests/folder.ts";
import { GOLDEN_ADAPTER, openEngine, sample } from "../../tests/golden/golden.ts";
import { readAdapter, writeAdapter } from "../formats/adapter.ts";
import { openGguf } from "../formats/gguf.ts";
import { loraDifference, loraOrder, type LoraTensors } from "../formats/lora.ts";
import { readPeft } from "../formats/peft.ts";
import { floatTensor, readSafetensors, writeSafetensors } from "../formats/safetensors.ts";
import { loadModel } from "../model/load_model.ts";
import { Adapters, CHECKPOINT_OPTIMIZER } from "./adapters.ts";
import { CHECKPOINT_ADAPTER } from "../protocol/protocol.ts";
import type { EngineClient } from "../protocol/client.ts";
import type { LoraShape } from "../protocol/protocol.ts";

const LORA: LoraShape = { rank: 3, alpha: 6, targets: ["k_proj", "o_proj"] };

/** Runs `use` with an engine, a folder, and a trained adapter "policy". */
async function withPolicy(use: (client: EngineClient, directory: string) => Promise<void>): Promise<void> {
  const engine = await openEngine("f16", { micro_batch_tokens: 64 }), directory = await Deno.makeTempDir();
  try {
    const { client } = engine;
    await client.call("adapter_open", { adapter: "policy", source: { type: "init", lora: LORA, seed: 1 } });
    await step(client);
    await use(client, directory);
  } finally {
    await engine.close();
    await Deno.remove(directory, { recursive: true });
  }
}

const samples = [sample([5, 6, 7, 8, 9, 10], 0)];
const step = (client: EngineClient) =>
  client.call("train_step", {
    ...{ adapter: "policy", samples, loss: { type: "sft", normalizer: 5 } as const },
    optimizer: {
      learning_rate: 1e-2,
      beta1: 0.9,
      beta2: 0.999,
      eps: 1e-8,
      weight_decay: 0,
      max_grad_norm: 0,
    },
  });

async function refused(request: Promise<unknown>, code: string, pattern: RegExp): Promise<void> {
  await rejects(request, (error) => {
    return error instanceof ServiceError && error.code === code && pattern.test(error.message);
  });
}

/** An adapter of zeros for layers of these widths. */
function zeros(
  facts: { architecture: string; layers: number; target: LoraTarget; in: number; out: number },
): LoraTensors {
  const { architecture, layers, target } = facts, targets = [target];
  const pair = {
    a: new Float32Array(2 * facts.in),
    b: new Float32Array(2 * facts.out),
    in: facts.in,
    out: facts.out,
  };
  const tensors = new Map(loraOrder(layers, targets).map(({ key }) => [key, pair]));
  return { architecture, rank: 2, alpha: 4, targets, layers, tensors };
}

gpuTest("a saved adapter is the same as GGUF, as PEFT folder and opened again", async () => {
  await withPolicy(async (client, directory) => {
    const path = `${directory}/a.gguf`, peft_dir = `${directory}/peft`;
    const { bytes, sha256 } = await client.call("adapter_save", { adapter: "policy", path, peft_dir });
    equal(bytes, (await Deno.stat(path)).size);
    const saved = await readAdapter(path);
    deepEqual([saved.rank, saved.alpha, saved.targets, saved.layers], [3, 6, LORA.targets, 4]);
    equal(loraDifference(await readPeft(peft_dir, "qwen3"), saved), null);
    const config = JSON.parse(await Deno.readTextFile(`${peft_dir}/adapter_config.json`));
    equal(config.base_model_name_or_path, "tiny-agent", "the model's own name, no path of this machine");
    const again = await client.call("adapter_open", { adapter: "again", source: { type: "file", path } });
    deepEqual(again, { lora: LORA, parameters: 3 * 4 * (256 + 128 + 512 + 256), version: 0 });
    const other = { adapter: "again", path: `${directory}/b.gguf`, peft_dir: null };
    equal((await client.call("adapter_save", other)).sha256, sha256);
    const golden = await fixturePath(GOLDEN_ADAPTER);
    await client.call("adapter_open", { adapter: "golden", source: { type: "file", path: golden } });
    await client.call("adapter_save", { adapter: "golden", path, peft_dir: null });
    equal(loraDifference(await readAdapter(path), await readAdapter(golden)), null);
  });
});

gpuTest(
  "the model's shape decides on the order of rows in a PEFT folder, not how it rotates",
  async (gpu) => {
    using file = await openGguf(await fixturePath("models/tinystories-656k-llama-f16.gguf"));
    const { model, allocator, name } = await loadModel(gpu, file, { compute: "f32", max_context: 64 });
    try {
      const { shape } = model, targets = ["q_proj", "k_proj", "v_proj"] as const;
      const permuted = { q_proj: shape.heads, k_proj: shape.kv_heads };
      equal(shape.layers[0]!.rotation!.pairing, "adjacent");
      await withFolder(async (folder) => {
        for (const qk_permuted of [true, false]) {
          const changed = { ...model, shape: { ...shape, qk_permuted } };
          const adapters = new Adapters(allocator, changed, { base_model: name });
          const lora = { rank: 4, alpha: 4, targets: [...targets] };
          await adapters.open("policy", { type: "init", lora, seed: 1 });
          const policy = adapters.get("policy");
          policy.write(Float32Array.from({ length: policy.layout.elements }, (_, i) => i));
          const path = `${folder}/adapter.gguf`, peft_dir = `${folder}/peft`;
          await adapters.save("policy", { path, peft_dir });
          const saved = await readAdapter(path);
          const orders = [await readPeft(peft_dir, "llama"), await readPeft(peft_dir, "llama", permuted)];
          deepEqual(orders.map((read) => loraDifference(read, saved) === null), [!qk_permuted, qk_permuted]);
        }
      });
    } finally {
      model.recorder.destroy();
      allocator.destroy();
    }
  },
);

gpuTest("an adapter of another model is refused with the difference, and takes no memory", async () => {
  await withPolicy(async (client, directory) => {
    const path = `${directory}/other.gguf`;
    const { bytes } = await client.call("counters", null);
    const fits = { architecture: "qwen3", layers: 4, target: "k_proj" as const, in: 256, out: 128 };
    const cases: [Partial<typeof fits>, RegExp][] = [
      [{ architecture: "llama" }, /it is for llama, the model is qwen3$/],
      [{ layers: 3 }, /it has 3 layers, the model 4$/],
      [{ in: 128 }, /blk\.0\.k_proj is 128 × 128, the model's is 128 × 256$/],
      [{ out: 64 }, /blk\.0\.k_proj is 64 × 256, the model's is 128 × 256$/],
    ];
    for (const [change, pattern] of cases) {
      await writeAdapter(path, zeros({ ...fits, ...change }));
      const source = { type: "file", path } as const;
      await refused(client.call("adapter_open", { adapter: "other", source }), "format_invalid", pattern);
    }
    const missing = { type: "file", path: `${directory}/nothing.gguf` } as const;
    await refused(
      client.call("adapter_open", { adapter: "other", source: missing }),
      "path_not_found",
      /nothing/,
    );
    deepEqual((await client.call("counters", null)).bytes, bytes);
  });
});

gpuTest("a name is opened once, and one that is not open is refused", async () => {
  await withPolicy(async (client) => {
    const source = { type: "init", lora: LORA, seed: 1 } as const;
    await refused(
      client.call("adapter_open", { adapter: "policy", source }),
      "conflict",
      /"policy": it is open/,
    );
    await refused(
      client.call("adapter_close", { adapter: "nobody" }),
      "path_not_found",
      /"nobody": it is not open/,
    );
    const copy = { adapter: "copy", source: { type: "copy", adapter: "nobody" } as const };
    await refused(client.call("adapter_open", copy), "path_not_found", /"nobody"/);
  });
});

gpuTest("a damaged checkpoint is refused; what was loaded stays and goes on", async () => {
  await withPolicy(async (client, directory) => {
    await client.call("checkpoint_save", { adapter: "policy", directory });
    const optimizer = `${directory}/${CHECKPOINT_OPTIMIZER}`, adapter = `${directory}/${CHECKPOINT_ADAPTER}`;
    const whole = await Deno.readFile(optimizer), adapter_bytes = await Deno.readFile(adapter);
    const content = await readSafetensors(optimizer);
    const load = () => client.call("checkpoint_load", { adapter: "policy", directory });
    const { bytes } = await client.call("counters", null);

    await Deno.writeFile(optimizer, whole.subarray(0, whole.length - 7));
    await refused(load(), "format_invalid", /optimizer\.safetensors/);
    for (const [key, value] of [["step", "-1"], ["step", "1.5"], ["version", "many"]] as const) {
      await writeSafetensors(optimizer, { ...content, metadata: new Map(content.metadata).set(key, value) });
      await refused(load(), "format_invalid", new RegExp(`its metadata ${key} is ${value}`));
    }
    const short = new Map(content.tensors).set("v", floatTensor([4], new Float32Array(4)));
    await writeSafetensors(optimizer, { ...content, tensors: short });
    await refused(load(), "format_invalid", /optimizer\.safetensors.*v/);
    await Deno.remove(optimizer);
    await refused(load(), "path_not_found", /optimizer\.safetensors/);
    await Deno.writeFile(optimizer, whole);
    await Deno.writeFile(adapter, adapter_bytes.subarray(0, 100));
    await refused(load(), "format_invalid", /adapter\.gguf/);
    await Deno.writeFile(adapter, adapter_bytes);
    deepEqual((await client.call("counters", null)).bytes, bytes, "nothing was kept");

    const gone_on = await step(client);
    deepEqual([gone_on.step, gone_on.version], [2, 2]);
    equal((await load()).version, 1);
    deepEqual(await step(client), gone_on, "bit for bit");
  });
});
