/** What runs allocate on the device, by their own metric, compared with their plans: `svc train` and `svc plan`. */

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { gpuTest } from "../kernels/gpu_testing.ts";
import type { Plan } from "../runs/plan/plan.ts";
import { readEvents } from "../runs/record/event_log.ts";
import { ofKind } from "../runs/run_fake.ts";
import { fixturePath } from "./fixture.ts";
import { withFolder } from "./folder.ts";
import { writePairs, writeTraces } from "./small_sft.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** A plan is an upper bound of what the run then allocates, and at most this much above it. */
const MOST_ABOVE = 1.1;

/** Short runs. All but the first start from its adapter and compare with it. */
const RUNS: Readonly<Record<string, string>> = {
  sft: `
training = { ctx = 512, updates = 1, batch_tokens = 1024, micro_batch_tokens = 512 }
sft = { data = "traces.jsonl" }
`,
  preference: `
training = { ctx = 512, updates = 1, batch_tokens = 1024, micro_batch_tokens = 1024 }
preference = { data = "pairs.jsonl", loss = "dpo" }
evaluation = { data = "${ROOT}examples/tiny_agent_pairs.heldout.jsonl", max_examples = 2 }
`,
  agent_grpo: `
training = { ctx = 640, lr = 3e-3, gradient_checkpointing = true }
checkpoint = { every_updates = 1 }
[agent]
scenarios = "${ROOT}examples/tiny_agent_tasks.train.jsonl"
updates = 1
scenarios_per_update = 2
group_size = 3
max_new_tokens_per_turn = 48
max_rollout_secs = 0
truncation = "min_reward"
max_update_kl = 1e-4
kl_coefficient = 0.01
kl_reference = "init_adapter"
judge = { type = "local" }
[agent.environment]
type = "local"
allow_unsandboxed = true
scenario_toolsets = ["files"]
`,
};

async function svc(...args: string[]): Promise<string> {
  const command = new Deno.Command(Deno.execPath(), { args: ["run", "-A", "cli.ts", ...args], cwd: ROOT });
  const { code, stdout, stderr } = await command.output();
  assert.equal(code, 0, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout);
}

gpuTest("runs of every algorithm allocate what their plan says", async () => {
  const model = await fixturePath("models/tiny-agent-f16.gguf");
  await withFolder(async (folder) => {
    await writeTraces(`${folder}/traces.jsonl`);
    await writePairs(`${folder}/pairs.jsonl`);
    for (const [algorithm, sections] of Object.entries(RUNS)) {
      const path = `${folder}/${algorithm}.toml`, first = `${folder}/sft.gguf`;
      const from = algorithm === "sft" ? "" : `, init_adapter = "${first}"`;
      const config = `
run = { algorithm = "${algorithm}", directory = "${algorithm}" }
model = { path = "${model}" }
lora = { rank = 8, alpha = 16${from} }
output = { path = "${algorithm}.gguf" }`;
      await Deno.writeTextFile(path, config + sections);
      const { memory }: Plan = JSON.parse(await svc("plan", path, "--json"));
      await svc("train", path);
      const events = await Array.fromAsync(readEvents(`${folder}/${algorithm}/events.jsonl`));
      const measured = ofKind(events, "metrics").flatMap(({ values }) => values["memory/device_bytes"] ?? []);
      assert.equal(measured.length, 1, algorithm);
      const [peak] = measured as [number];
      const says = `${algorithm}: planned ${memory.peak_bytes}, allocated ${peak} bytes`;
      assert.ok(peak <= memory.peak_bytes && memory.peak_bytes <= MOST_ABOVE * peak, says);
      console.log(says);
    }
  });
});
