/** `POST /v1/plan`, with real files and real jobs. */

import assert from "node:assert/strict";
import { ASSUMED_DEVICE } from "../../tests/assumed_device.ts";
import { CATALOGUE, GIB, postJson as post, postToml as toml, withPlans } from "../../tests/plan_app.ts";
import { refusal } from "../app_testing.ts";

Deno.test("a recipe is planned: its configuration, sources, memory, length and warnings", () =>
  withPlans(async ({ send, files }) => {
    const recipe = {
      recipe: "agent_grpo",
      model: files.model,
      scenarios: files.scenarios,
      objective: { environment: "box" },
      budget: { updates: 3 },
      params: { "agent.environment.limits.exec_timeout_secs": 5, "training.ctx": 1024 },
    };
    const { status, json } = await send("/v1/plan", post(recipe));
    assert.equal(status, 200, JSON.stringify(json));
    const { config, sources, memory, schedule, warnings } = json;
    assert.deepEqual(config.agent.environment, { id: "box", limits: { exec_timeout_secs: 5 } });
    assert.deepEqual([config.model.path, config.agent.scenarios], [files.model, files.scenarios]);
    assert.deepEqual(
      [config.run.directory, config.output.path, config.checkpoint.directory, config.run.name],
      [
        undefined,
        undefined,
        undefined,
        undefined,
      ],
    );
    assert.deepEqual([sources["training.lr"], sources["lora.rank"], sources["agent.updates"]], [
      "derived",
      "default",
      "override",
    ]);
    const on_device = memory.posts.filter(({ post }: { post: string }) => !post.startsWith("host_"));
    assert.equal(
      memory.peak_bytes,
      on_device.reduce((sum: number, { bytes }: { bytes: number }) => sum + bytes, 0),
    );
    assert.equal(memory.vram_budget_bytes, 8 * GIB);
    assert.equal(schedule.updates, 3);
    assert.deepEqual(warnings.map(({ code }: { code: string }) => code), ["no_heldout"]);
    // What a plan shows can be posted back, and gives the same.
    const again = await send("/v1/plan", post({ config }));
    assert.equal(again.status, 200, JSON.stringify(again.json));
    assert.deepEqual(again.json.config, config);
  }));

Deno.test("a GPU is refused where the machine has only a software adapter", () => {
  const probeDevices = () => Promise.resolve([{ ...ASSUMED_DEVICE, software: true, vram_bytes: null }]);
  return withPlans(async ({ send, files }) => {
    const recipe = { recipe: "sft", model: files.model, data: files.traces };
    const asked = (device: string) =>
      send("/v1/plan", post({ ...recipe, params: { "model.device": device } }));
    assert.deepEqual(refusal(await asked("gpu")), [422, "invalid-request", [
      "/params/model.device invalid_value",
    ]]);
    for (const device of ["auto", "software"]) assert.equal((await asked(device)).status, 200, device);
  }, { probeDevices });
});

Deno.test("a run on a software adapter beside a GPU is planned with the limits of that adapter", () => {
  const gpu = { ...ASSUMED_DEVICE, vram_bytes: 8 * GIB };
  const limits = { ...gpu.limits, maxStorageBufferBindingSize: 256 };
  const narrow = { ...gpu, name: "narrow", software: true, vram_bytes: null, limits };
  const only_gpu = { probeDevices: () => Promise.resolve([gpu]) };
  const both = { probeDevices: () => Promise.resolve([gpu, narrow]) };
  return withPlans(async (app) => {
    const on = async (send: typeof app.send, device: string) => {
      const recipe = { recipe: "sft", model: app.files.model, data: app.files.traces };
      return await send("/v1/plan", post({ ...recipe, params: { "model.device": device } }));
    };
    const planned = await on(app.send, "gpu"), bound = await on(app.send, "software");
    assert.deepEqual([planned.status, planned.json.memory.vram_budget_bytes], [200, 8 * GIB]);
    assert.deepEqual([bound.status, bound.json.type], [422, "urn:svc:problems/insufficient-memory"]);
    assert.match(bound.json.detail, /256 B/);
    const devices = (await app.send("/v1/capabilities")).json.devices;
    assert.deepEqual(devices.map(({ name }: { name: string }) => name), ["an ordinary GPU", "narrow"]);
    const lonely = app.restart(only_gpu);
    assert.deepEqual(refusal(await on(lonely.send, "software")), [422, "invalid-request", [
      "/params/model.device invalid_value",
    ]]);
  }, both);
});

Deno.test("TOML, JSON and a recipe mean the same, and problems stand at their own places", () =>
  withPlans(async ({ send, files }) => {
    const config = {
      run: { algorithm: "sft" },
      model: { path: files.model },
      sft: { data: files.traces },
      training: { ctx: 1024, updates: 2 },
      checkpoint: {},
    };
    const text = `name = "x"
[run]
algorithm = "sft"
[model]
path = ${JSON.stringify(files.model)}
[sft]
data = ${JSON.stringify(files.traces)}
[training]
ctx = 1024
updates = 2
[checkpoint]
`;
    const recipe = {
      recipe: "sft",
      model: files.model,
      data: files.traces,
      budget: { updates: 2 },
      params: { "training.ctx": 1024 },
    };
    const plans = [await send("/v1/plan", post({ config })), await send("/v1/plan", toml(text))];
    plans.push(await send("/v1/plan", post(recipe)));
    for (const { status, json } of plans) {
      assert.equal(status, 200, JSON.stringify(json));
      assert.deepEqual(json.config, plans[0]!.json.config);
    }
    const wrong = { ...config, training: { ctx: 1024, lrr: 1 } };
    assert.deepEqual(refusal(await send("/v1/plan", post({ config: wrong }))), [422, "invalid-request", [
      "/config/training/lrr unknown_field",
    ]]);
    assert.deepEqual(refusal(await send("/v1/plan", toml(text.replace("ctx", "ctxx")))), [
      422,
      "invalid-request",
      ["/training/ctxx unknown_field"],
    ]);
    const params = { ...recipe, params: { "training.lrr": 1 } };
    const { json } = await send("/v1/plan", post(params));
    assert.deepEqual(json.errors[0], {
      pointer: "/params/training.lrr",
      code: "unknown_field",
      message: "is no known key",
      hint: 'did you mean "training.lr"?',
    });
  }));

Deno.test("classes of problems come in the contract's order, each with all of its own and nothing else", () =>
  withPlans(async ({ send, files, root }) => {
    await Deno.writeTextFile(`${root}/no_model`, "no model");
    // deno-lint-ignore no-explicit-any -- the request is made wrong in every way, then mended step by step
    const recipe: any = {
      recipe: "agent_grpo",
      model: "/etc/passwd",
      scenarios: "ds_01ARZ3NDEKTSV4RRFFQ69G5FAV",
      objective: { environment: "nowhere", judge: { base_url: "http://x" }, mcp_servers: [["cmd"]] },
      params: {
        "training.lr": "fast",
        "agent.group_sze": 2,
        "agent.updates": 5,
        "evaluation.data": `${root}/none`,
        "agent.environment.image": "x",
      },
      budget: { updates: 3 },
      limits: { vram: "40MiB" },
    };
    const expect = async (status: number, type: string, ...entries: string[]) =>
      assert.deepEqual(refusal(await send("/v1/plan", post(recipe))), [status, type, entries]);
    await expect(
      422,
      "invalid-request",
      "/params/training.lr invalid_value",
      "/params/agent.group_sze unknown_field",
    );
    recipe.params["training.lr"] = 1e-4;
    delete recipe.params["agent.group_sze"];
    await expect(404, "not-found", "/scenarios not_found");
    recipe.scenarios = files.scenarios;
    recipe.params["output.path"] = `${root}/out`;
    await expect(403, "forbidden-path", "/params/output.path forbidden_path", "/model forbidden_path");
    delete recipe.params["output.path"];
    recipe.model = `${root}/no_model`;
    await expect(422, "invalid-request", "/params/evaluation.data path_not_found");
    recipe.params["evaluation.data"] = files.scenarios;
    await expect(422, "invalid-request", "/model invalid_value");
    recipe.model = files.model;
    await expect(
      422,
      "server-declared",
      "/params/agent.environment.image server_declared",
      "/objective/judge server_declared",
      "/objective/mcp_servers/0 server_declared",
    );
    delete recipe.params["agent.environment.image"];
    recipe.objective = { environment: "nowhere" };
    await expect(422, "unknown-catalog-id", "/objective/environment unknown_catalog_id");
    recipe.objective = { environment: "box" };
    recipe.params["agent.environment.limits.exec_timeout_secs"] = 21;
    await expect(422, "invalid-request", "/params/agent.environment.limits.exec_timeout_secs out_of_range");
    delete recipe.params["agent.environment.limits.exec_timeout_secs"];
    await expect(409, "conflict", "/params/agent.updates override_conflict");
    delete recipe.params["agent.updates"];
    recipe.params["training.ctx"] = 4096;
    await expect(422, "invalid-request", "/allow needs_opt_in");
    const { json: { detail } } = await send("/v1/plan", post(recipe));
    assert.match(detail, /"exceed_train_context", which trains at positions that the model has not learned/);
    recipe.allow = ["exceed_train_context"];
    await expect(422, "insufficient-memory", "/params/training.ctx out_of_range");
    recipe.limits = { vram: "4GiB" };
    assert.equal((await send("/v1/plan", post(recipe))).status, 200);
  }));

Deno.test("memory that does not suffice is told with what was tried and what would help", () =>
  withPlans(async ({ send, files }) => {
    const recipe = {
      recipe: "sft",
      model: files.model,
      data: files.traces,
      params: { "training.ctx": 1024 },
      limits: { vram: 98 * 2 ** 20 },
    };
    const { json } = await send("/v1/plan", post(recipe));
    assert.equal(json.type, "urn:svc:problems/insufficient-memory");
    const { overflow_bytes, vram_budget_bytes, dominant_posts, levers_applied, unlocks } = json.meta;
    assert.ok(overflow_bytes > 0 && dominant_posts.length === 3, JSON.stringify(json.meta));
    assert.equal(vram_budget_bytes, 98 * 2 ** 20);
    assert.ok(levers_applied.includes("gradient_checkpointing"), JSON.stringify(levers_applied));
    assert.deepEqual(unlocks, ["truncate_context"]);
    const cut = await send("/v1/plan", post({ ...recipe, allow: ["truncate_context"] }));
    assert.equal(cut.status, 200, JSON.stringify(cut.json));
    const codes = cut.json.warnings.map(({ code }: { code: string }) => code);
    assert.ok(codes.includes("context_truncated") && codes.includes("lever_applied"), codes.join());
    assert.ok(cut.json.memory.peak_bytes <= 98 * 2 ** 20);
    assert.ok(cut.json.config.training.ctx < 1024);
    // A complete configuration is planned as written.
    const config = { ...cut.json.config, training: { ...cut.json.config.training, ctx: 1024 } };
    delete config.training.micro_batch_tokens;
    const whole = await send("/v1/plan", post({ config: { ...config, training: { ctx: 1024 } } }));
    assert.equal(whole.status, 200);
    assert.deepEqual([whole.json.levers_applied, whole.json.levers], [[], []]);
  }));

Deno.test("limits.ram of a request and of the server bound what lies in the machine's memory", () =>
  withPlans(async ({ send, files, restart }) => {
    const recipe = { recipe: "sft", model: files.model, data: files.traces, params: { "lora.rank": 8 } };
    const { memory } = (await send("/v1/plan", post(recipe))).json;
    const { bytes } = memory.posts.find(({ post }: { post: string }) => post === "host_checkpoint");
    assert.equal(memory.host_peak_bytes, bytes);
    const limited = (ram: unknown) => send("/v1/plan", post({ ...recipe, limits: { ram } }));
    assert.equal((await limited(bytes)).status, 200);
    const refused = await limited(bytes - 1);
    assert.deepEqual(refusal(refused), [422, "insufficient-memory", ["/params/lora.rank out_of_range"]]);
    assert.deepEqual(refused.json.meta, {
      ...{ overflow_bytes: 1, vram_budget_bytes: 8 * GIB, ram_budget_bytes: bytes - 1 },
      dominant_posts: [{ post: "host_checkpoint", bytes }],
      levers_applied: [],
      unlocks: [],
    });
    // Two runs share what the server may use.
    const server = restart({ toml: `max_concurrent_runs = 2\nlimits.ram = ${2 * bytes - 2}\n` });
    const shared = await server.send("/v1/plan", post(recipe));
    assert.equal(shared.json.meta.ram_budget_bytes, bytes - 1);
  }));

Deno.test("what is not built is refused by name", () =>
  withPlans(async ({ send, files }) => {
    const recipe = { recipe: "sft", model: files.model, data: files.traces, params: { "lora.dropout": 0.1 } };
    const refused = await send("/v1/plan", post(recipe));
    assert.deepEqual(refusal(refused), [422, "invalid-request", ["/params/lora.dropout invalid_value"]]);
    assert.match(refused.json.detail, /dropout is not in this build/);
  }));

Deno.test("a judge in the run's own model is the operator's to declare, and takes the memory of a sequence", () =>
  withPlans(async ({ send, files }) => {
    const recipe = (objective: unknown, params = {}) => ({
      ...{ recipe: "agent_grpo", model: files.model, scenarios: files.scenarios, objective },
      ...{ budget: { updates: 1 }, params: { "training.ctx": 1024, ...params } },
    });
    const planned = async (objective: unknown) => {
      const { status, json } = await send("/v1/plan", post(recipe(objective)));
      assert.equal(status, 200, JSON.stringify(json));
      return { judge: json.config.agent.judge, bytes: json.memory.peak_bytes };
    };
    const without = await planned({ environment: "box" });
    const judged = await planned({ environment: "box", judge: "own" });
    assert.deepEqual(judged.judge, { id: "own" });
    assert.ok(judged.bytes > without.bytes, `${without.bytes} and ${judged.bytes}`);
    const objective = { environment: "box", judge: "own" };
    const limited = await send("/v1/plan", post(recipe(objective, { "agent.judge.max_chars": 5000 })));
    assert.deepEqual(refusal(limited)[2], ["/params/agent.judge.max_chars invalid_value"]);
    const own = await send("/v1/plan", post(recipe({ environment: "box" }, { "agent.judge.type": "local" })));
    assert.deepEqual(refusal(own), [422, "server-declared", ["/params/agent.judge.type server_declared"]]);
  }, { toml: `${CATALOGUE}[[judges]]\nid = "own"\ntype = "local"\n` }));

Deno.test("what only the operator declares is refused as that in complete configurations too", () =>
  withPlans(async ({ send, files }) => {
    const agent = {
      scenarios: files.scenarios,
      updates: 1,
      environment: { id: "box" },
      judge: { base_url: "http://x", model: "m" },
      mcp_servers: [{ command: ["x"] }],
      reward: { command: ["x"] },
    };
    const config = { run: { algorithm: "agent_grpo" }, model: { path: files.model }, agent };
    assert.deepEqual(refusal(await send("/v1/plan", post({ config }))), [422, "server-declared", [
      "/config/agent/judge/base_url server_declared",
      "/config/agent/judge/model server_declared",
      "/config/agent/mcp_servers/0/command server_declared",
      "/config/agent/reward server_declared",
    ]]);
  }));

Deno.test("bodies of no known form, and forms that exclude each other, are refused", () =>
  withPlans(async ({ send }) => {
    assert.deepEqual(refusal(await send("/v1/plan", post({}))), [422, "invalid-request", [
      "/recipe missing_field",
      "/model missing_field",
    ]]);
    const both = await send("/v1/plan", post({ fork_from: { run: "r" }, config: {}, params: {}, x: 1 }));
    assert.deepEqual(refusal(both), [422, "invalid-request", [
      "/x unknown_field",
      "/params invalid_value",
      "/config/run/algorithm missing_field",
      "/config/model/path missing_field",
    ]]);
    assert.deepEqual(refusal(await send("/v1/plan", toml("a = [")))[1], "invalid-request");
    const none = await send("/v1/plan", post({ fork_from: { run: "run_x" } }));
    assert.deepEqual(refusal(none), [404, "not-found", ["/fork_from/run not_found"]]);
    for (const key of ["__proto__", "constructor", "toString"]) {
      const inside = `{"recipe":"sft","model":"/m","data":"/d","params":{"${key}":1}}`;
      const found = refusal(await send("/v1/plan", { ...post(null), body: inside }));
      assert.deepEqual(found, [422, "invalid-request", [`/params/${key} unknown_field`]]);
      const beside = `{"recipe":"sft","model":"/m","data":"/d","${key}":1}`;
      const other = refusal(await send("/v1/plan", { ...post(null), body: beside }));
      assert.deepEqual(other, [422, "invalid-request", [`/${key} unknown_field`]]);
      const whole = `{"config":{"run":{"algorithm":"sft"},"${key}":1}}`;
      const { json } = await send("/v1/plan", { ...post(null), body: whole });
      const pointers = json.errors.map(({ pointer }: { pointer: string }) => pointer);
      assert.ok(pointers.includes(`/config/${key}`), pointers.join());
    }
  }));
