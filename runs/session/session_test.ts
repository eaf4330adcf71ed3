import assert from "node:assert/strict";
import { LORA_TARGETS } from "../../core/lora_targets.ts";
import type { ModelFacts } from "../../trainer/protocol/protocol.ts";
import { testConfig } from "../config_testing.ts";
import type { RolloutRequest } from "./agent_host.ts";
import { loadRequest, openWorkerSession, softwareWarning } from "./session.ts";

Deno.test("the cache fits all rollouts and requests at full length, and one more prompt of each; without rollouts one request", () => {
  const config = testConfig("/nowhere");
  const request = loadRequest(config, { count: 6, tokens: 100 });
  assert.equal(request.max_sequences, 6 + 4);
  // 100 tokens take 4 pages of 32, 256 take 8; a sequence can copy one page of its parent.
  assert.equal(request.kv_tokens, ((6 + 1) * (4 + 1) + (4 + 1) * (8 + 1)) * 32);
  assert.equal(request.max_context, 256);
  const without = loadRequest(config, null);
  assert.deepEqual([without.max_sequences, without.kv_tokens], [1, 8 * 32]);
});

Deno.test("the load request includes the demand of all updates, and an adapter for each request", () => {
  const config = testConfig("/nowhere"), updates = { targets: 99, divergence: true, adapters: 2 };
  assert.equal(loadRequest(config, null).demand, undefined);
  assert.deepEqual(loadRequest(config, null, updates).demand, {
    lora: { rank: config.lora.rank, alpha: config.lora.alpha, targets: [...LORA_TARGETS] },
    ...{ other_adapters: 3, targets: 99, divergence: true },
  });
  const rollouts = { count: 6, tokens: 100 };
  assert.equal(loadRequest(config, rollouts, updates).demand!.other_adapters, 2 + 4);
  config.lora.targets = ["q_proj"];
  assert.deepEqual(loadRequest(config, null, updates).demand!.lora.targets, ["q_proj"]);
});

Deno.test('a software adapter is worth a warning where "auto" chose it', () => {
  const config = testConfig("/nowhere");
  const facts = { device: { software: true, name: "llvmpipe" } } as ModelFacts;
  assert.match(softwareWarning(config, facts)!, /llvmpipe/);
  config.model.device = "software";
  assert.equal(softwareWarning(config, facts), null);
  config.model.device = "auto";
  assert.equal(softwareWarning(config, { device: { software: false } } as ModelFacts), null);
});

Deno.test("an engine that dies ends the rollouts that wait for it", async () => {
  const root = await Deno.makeTempDir();
  try {
    const entry_url = new URL("./worker_fake.ts", import.meta.url).href;
    // This entry's engine fails at its first port, and its rollouts do not end by themselves.
    const session = openWorkerSession({
      config: testConfig(root),
      entry_url,
      workspaces: root,
      readable: [],
    });
    const rollout = session.agent.rollout({} as RolloutRequest, new AbortController().signal);
    await assert.rejects(rollout.next(), /the engine worker failed/);
    await assert.rejects(session.engine.call("counters", null), /the engine worker failed/);
    await session.close();
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
