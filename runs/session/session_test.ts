import assert from "node:assert/strict";
import { deviceFolder } from "../../core/device_lock.ts";
import { checkedFile } from "../../core/regular_file.ts";
import { LORA_TARGETS } from "../../core/lora_targets.ts";
import type { WebGpuName, WebGpuTable } from "../../core/webgpu_providers.ts";
import type { LoadRequest, ModelFacts } from "../../trainer/protocol/protocol.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { testConfig } from "../config_testing.ts";
import type { RolloutRequest } from "./agent_host.ts";
import { agentClient, serveAgent } from "./agent_worker.ts";
import {
  agentPermissions,
  enginePermissions,
  loadRequest,
  openWorkerSession,
  providerMessage,
  softwareWarning,
} from "./session.ts";

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

Deno.test("a judge in the base model has room for one sequence beside the rollouts, and for none without them", () => {
  const config = testConfig("/nowhere"), rollouts = { count: 6, tokens: 100 };
  const sizes = () => [rollouts, null].map((demand) => loadRequest(config, demand)), plain = sizes();
  config.agent!.judge = { type: "local", timeout_secs: 1, permute: true };
  const [judged, alone] = sizes() as [LoadRequest, LoadRequest];
  assert.deepEqual(judged, {
    ...plain[0],
    ...{ max_sequences: plain[0]!.max_sequences + 1, kv_tokens: plain[0]!.kv_tokens + config.training.ctx },
  });
  assert.deepEqual(alone, plain[1]);
});

Deno.test("the load request includes the demand of all updates, and an adapter for each request", () => {
  const config = testConfig("/nowhere"),
    updates = { targets: 99, divergence: true, keeps_state: true, adapters: 2 };
  assert.equal(loadRequest(config, null).demand, undefined);
  assert.deepEqual(loadRequest(config, null, updates).demand, {
    lora: { rank: config.lora.rank, alpha: config.lora.alpha, targets: [...LORA_TARGETS] },
    ...{ other_adapters: 3, targets: 99, divergence: true, keeps_state: true },
  });
  const rollouts = { count: 6, tokens: 100 };
  assert.equal(loadRequest(config, rollouts, updates).demand!.other_adapters, 2 + 4);
  config.lora.targets = ["q_proj"];
  assert.deepEqual(loadRequest(config, null, updates).demand!.lora.targets, ["q_proj"]);
});

Deno.test("an engine may do what its WebGPU needs, besides its files, and nothing more", () => {
  const files = { read: ["/model"] };
  const nothing_else = { variables: [], linux_environment: {} };
  const built: WebGpuTable = {
    dawn: {
      ...nothing_else,
      needs: () => ({ env: ["DAWN_DEBUG"], ffi: ["/dawn.so"], read: ["/dawn.so"] }),
    },
    deno: { ...nothing_else, needs: () => ({ env: ["DENO"] }) },
  };
  const rightsOf = (webgpu: WebGpuName) => {
    const { read, env, ffi, net, run } = enginePermissions(webgpu, files, built);
    return { ...{ env, ffi, net, run }, read: (read as string[]).filter((path) => path !== deviceFolder()) };
  };
  const nothing = { env: false, ffi: false, net: false, run: false };
  const dawn = { ...nothing, env: ["DAWN_DEBUG"], ffi: ["/dawn.so"], read: ["/model", "/dawn.so"] };
  assert.deepEqual(rightsOf("dawn"), dawn);
  assert.deepEqual(rightsOf("deno"), { ...nothing, env: ["DENO"], read: ["/model"] });
  // Either may be chosen.
  assert.deepEqual(rightsOf("auto"), { ...dawn, env: ["DAWN_DEBUG", "DENO"] });
});

Deno.test("a run writes its recordings, and a replay may only read them, whatever its world needs", () => {
  const config = testConfig("/root_of_test"), model = config.model.path;
  const rightsOf = (folder: string | null) => {
    const replay = folder === null ? null : { folder, departures: "end_run" as const };
    const { read, write, run, net } = agentPermissions(config, { workspaces: "/w", replay });
    return { read, write, run, net };
  };
  assert.deepEqual(rightsOf(null), { read: true, write: ["/w"], run: true, net: false });
  assert.deepEqual(rightsOf("/r"), { read: [model, "/r"], write: false, run: false, net: false });
  config.run.record = true;
  const recordings = `${config.run.directory}/recordings`;
  assert.deepEqual(rightsOf(null).write, ["/w", recordings]);
  assert.deepEqual(rightsOf("/r").write, false, "a replay is not recorded");
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

Deno.test("a run on a GPU says which WebGPU it uses and why, and what is left out", () => {
  const device = { name: "A GPU", webgpu: "dawn", webgpu_reason: "as configured", software: false };
  const message = (facts: typeof device) => providerMessage({ device: facts } as Pick<ModelFacts, "device">);
  assert.equal(message(device), "the device is A GPU, through the WebGPU of dawn: as configured");
  const left_out = ["products of segments (h)", "products in tiles of 128 × 128"];
  assert.match(
    message({ ...device, left_out } as typeof device)!,
    /as configured; left out, because its driver is wrong: products of segments \(h\); products in tiles of 128 × 128$/,
  );
  assert.equal(message({ ...device, software: true }), null);
});

Deno.test("an engine that dies ends the rollouts that wait for it", async () => {
  const root = await Deno.makeTempDir();
  try {
    const entry_url = new URL("./worker_fake.ts", import.meta.url).href;
    // This entry's engine fails at its first port, and its rollouts do not end by themselves.
    const session = openWorkerSession({
      config: testConfig(root),
      files: [],
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

Deno.test("rollouts are rendered with the model's file as it was checked, and with no other in its place", async () => {
  const path = await Deno.realPath(await fixturePath("models/tiny-agent-f16.gguf")), root = "/nowhere";
  const config = testConfig(root), checked = await checkedFile(path);
  config.model.path = path;
  const messages = [{ role: "user" as const, content: "Hi" }];
  const asked = { messages, tools: [], max_new_tokens: 1, temperature: 1, top_p: 1, adapter: null };
  const { signal } = new AbortController();
  const [agent, engine] = [new MessageChannel(), new MessageChannel()];
  try {
    const files = [{ ...checked, ino: checked.ino + 1 }];
    serveAgent(agent.port1, { config, files, workspaces: root }, engine.port1);
    const { host } = agentClient(agent.port2);
    await assert.rejects(host.generate({ ...asked, rng_key: [1, 2] }, signal), {
      code: "path_not_found",
      message: `Cannot read ${path}: another file has taken its place`,
    });
  } finally {
    for (const { port1, port2 } of [agent, engine]) for (const port of [port1, port2]) port.close();
  }
});
