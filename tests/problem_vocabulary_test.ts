/**
 * The closed vocabularies of problems and of a plan's warnings: each entry is emitted by a request here. That nothing
 * else is ever emitted, `server/app_testing.ts` checks in every answer of every test.
 */

import assert from "node:assert/strict";
import { NO_CONTAINERS, REQUIRE_CONTAINERS } from "../agent/environment/container_testing.ts";
import { openGate, TestFleet } from "../runs/fleet/fleet_testing.ts";
import { WARNING_CODES, type WarningCode } from "../runs/record/warning.ts";
import type { Given, Sent, TestAppOptions } from "../server/app_testing.ts";
import { ALL_PROBLEM_TYPES, PROBLEM_CODES, PROBLEM_TYPES } from "../server/http/problem_types.ts";
import { fixturePath } from "./fixture.ts";
import { withFolder } from "./folder.ts";
import { CATALOGUE, type PlanApp, postJson, withPlans } from "./plan_app.ts";

interface Place extends PlanApp {
  fleet: TestFleet;
  /** The paths of a run that has completed, and of one that trains and answers nothing. */
  ended: string;
  live: string;
}

/** A server with these runs; the live one has the only slot. */
const withPlace = (body: (place: Place) => Promise<void>) =>
  withFolder(async (folder) => {
    const fleet = await TestFleet.open({ folder: `${folder}/fleet` }), gate = `${folder}/gate`;
    const toml = `command_timeout_seconds = 1\n${CATALOGUE}`;
    try {
      await withPlans(async (app) => {
        const { traces } = app.files, rows = (await Deno.readTextFile(traces)).split("\n").slice(0, 20);
        await Deno.writeTextFile(traces, `${rows.join("\n")}\n`);
        const songs = [1, 2, 3, 4].map((id) => `{"id": "${id}", "user": "Sing."}\n`);
        await Deno.writeTextFile(`${app.root}/judged.jsonl`, songs.join(""));
        const created = await app.send("/v1/runs", postJson(forked(app)));
        assert.equal(created.status, 201, created.body);
        const ended = fleet.fleet.get(created.json.id)!;
        await fleet.until(ended, "completed");
        await fleet.fleet.idle(ended.id);
        const live = await fleet.create({ updates: 1, gate, hang: 20 });
        await fleet.untilTraining(live, gate, 1);
        const paths = { ended: `/v1/runs/${ended.id}`, live: `/v1/runs/${live.id}` };
        await body({ ...app, fleet, ...paths }).finally(() => openGate(gate, 1));
        await fleet.until(live, "completed");
      }, { toml, fleet: fleet.fleet });
    } finally {
      await fleet.close();
    }
  });

const sft = ({ files: { model, traces } }: PlanApp, more: object = {}) => ({
  ...{ recipe: "sft", model, data: traces, budget: { updates: 2 }, params: { "training.ctx": 1024 } },
  ...more,
});

const grpo = ({ files: { model, scenarios } }: PlanApp, params: object = {}, more: object = {}) => ({
  ...{ recipe: "agent_grpo", model, scenarios, objective: { environment: "box" }, budget: { updates: 2 } },
  params: { "training.ctx": 1024, ...params },
  ...more,
});

/** The recipe of the run that is forked. */
const forked = (app: PlanApp) => grpo(app, { "agent.group_size": 2, "agent.scenarios_per_update": 1 });

type Requests = Readonly<
  Record<string, (place: Place) => [target: string, given?: Given, app?: TestAppOptions]>
>;

const plan = (body: object): [string, Given] => ["/v1/plan", postJson(body)];

const GENERATION = {
  messages: [{ role: "user", content: "a" }],
  max_new_tokens: 20,
  temperature: 1,
  top_p: 1,
};

/** A request for each type with each of its codes, or for a type without codes. */
const PROBLEMS: Requests = {
  "invalid-request missing_field": () => plan({}),
  "invalid-request unknown_field": () => ["/v1/health?x=1"],
  "invalid-request invalid_value": () => ["/v1/runs?state=x"],
  "invalid-request out_of_range": () => ["/v1/runs?limit=0"],
  "invalid-request unsupported_format": ({ files }) => ["/v1/preflight", postJson({ model: files.traces })],
  "invalid-request path_not_found": ({ root }) => ["/v1/preflight", postJson({ model: `${root}/none` })],
  "invalid-request needs_opt_in": (app) => plan(sft(app, { params: { "training.ctx": 4096 } })),
  "server-declared server_declared": (app) =>
    plan(grpo(app, {}, { objective: { reward: { command: ["x"] } } })),
  "unknown-catalog-id unknown_catalog_id": (app) => plan(grpo(app, {}, { objective: { environment: "x" } })),
  "insufficient-memory out_of_range": (app) => plan(sft(app, { limits: { vram: "1MiB" } })),
  "unauthorized unauthorized": () => ["/v1/health", { hosts: ["evil.example"] }],
  "forbidden-path forbidden_path": () => ["/v1/preflight", postJson({ model: "/etc/passwd" })],
  "not-found not_found": () => ["/v1/nothing"],
  "conflict override_conflict": (app) => plan(sft(app, { params: { "training.updates": 3 } })),
  "conflict conflict": ({ ended }) => [`${ended}/pause`, { method: "POST" }],
  "payload-too-large out_of_range": () => ["/v1/plan", postJson({}, { "content-length": "999999999" })],
  "unsupported-media-type unsupported_format":
    () => ["/v1/plan", postJson({}, { "content-type": "text/plain" })],
  "method-not-allowed": () => ["/v1/health", { method: "DELETE" }],
  "device-busy": (app) => ["/v1/runs", postJson(sft(app))],
  "timeout": ({ live }) => [`${live}/generate`, postJson(GENERATION)],
  "not-implemented": () => ["/v1/models"],
  "internal": () => ["/v1/capabilities", {}, { probeDevices: () => Promise.reject(new Error("a fault")) }],
};

/** A template whose turns end with a line end. */
const ENDLESS_TEMPLATE =
  "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}\n" +
  "{% for call in message.tool_calls or [] %}{{ call.function | tojson }}\n{% endfor %}{% endfor %}" +
  "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/** A template that writes the last message in another way than the ones before it. */
const UNSTABLE_TEMPLATE =
  "{% for message in messages %}{% if loop.last %}>{% endif %}<|im_start|>{{ message.role }}\n" +
  "{{ message.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

const whole = ({ files: { model, traces } }: PlanApp, more: object = {}) => ({
  config: {
    ...{ run: { algorithm: "sft" }, model: { path: model }, sft: { data: traces } },
    training: { ctx: 1024, updates: 2 },
    ...more,
  },
});

const device = (app: PlanApp, change: object): TestAppOptions => ({
  probeDevices: async () => {
    const { json } = await app.send("/v1/capabilities");
    return [{ ...json.devices[0], vendor: "", subgroup_size: 8, ...change }];
  },
});

/** A request for each warning; for one that this machine cannot give, what it lacks. */
const WARNINGS: Readonly<Record<WarningCode, Requests[string] | { lacks: string }>> = {
  clip_range_for_level: (app) =>
    plan(grpo(app, { "agent.importance_sampling_level": "sequence", "agent.clip_high": 0.2 })),
  template_not_prefix_stable: (app) =>
    plan(grpo(app, { "model.chat_template": `${app.root}/unstable.jinja` })),
  budget_changed_on_fork: ({ ended }) =>
    plan({ fork_from: { run: ended.split("/").at(-1) }, params: { "agent.max_turns": 3 } }),
  group_too_small: (app) => plan(grpo(app, { "agent.group_size": 2 })),
  judge_only_reward: (app) =>
    plan(grpo({ ...app, files: { ...app.files, scenarios: `${app.root}/judged.jsonl` } }, {}, {
      objective: { judge: "critic" },
    })),
  mutable_image_tag: NO_CONTAINERS === null || REQUIRE_CONTAINERS
    ? (app) => plan(grpo(app, {}, { objective: { environment: "sealed" } }))
    : { lacks: NO_CONTAINERS },
  kl_reference_is_base: (app) =>
    plan(grpo(app, { "lora.init_adapter": `${app.root}/adapter.gguf`, "agent.kl_coefficient": 0.1 })),
  no_heldout: (app) => plan(sft(app)),
  no_checkpoint: (app) => plan(whole(app)),
  software_device: (app) => [...plan(sft(app)), device(app, { software: true })],
  vram_unknown: (app) => [...plan(sft(app)), device(app, { vram_bytes: null })],
  lever_applied: (app) => plan(sft(app, { limits: { vram: "148MiB" } })),
  context_beyond_training: (app) => plan(whole(app, { training: { ctx: 4096, updates: 2 } })),
  context_truncated: (app) => plan(sft(app, { limits: { vram: "98MiB" }, allow: ["truncate_context"] })),
  rows_truncated: (app) => plan(sft(app, { params: { "training.ctx": 512 }, allow: ["truncate_context"] })),
  no_end_signal: (app) => plan(grpo(app, { "model.chat_template": `${app.root}/endless.jinja` })),
};

/** Sends a request, to an app of its own where it needs one. */
async function emit(place: Place, request: Requests[string]): Promise<Sent> {
  const [target, given, options] = request(place);
  const { send } = options ? place.restart({ toml: CATALOGUE, ...options }) : place;
  return await send(target, given);
}

async function assertProblems(place: Place): Promise<void> {
  const listed = ALL_PROBLEM_TYPES.flatMap((type) => {
    const { codes } = PROBLEM_TYPES[type];
    return codes.length === 0 ? [type] : codes.map((code) => `${type} ${code}`);
  });
  assert.deepEqual(Object.keys(PROBLEMS), listed);
  const codes = new Set(listed.flatMap((entry) => entry.split(" ").slice(1)));
  assert.deepEqual(PROBLEM_CODES.filter((code) => !codes.has(code)), []);
  for (const [entry, request] of Object.entries(PROBLEMS)) {
    const { json, body } = await emit(place, request), [type, code] = entry.split(" ");
    const emitted = json.errors.map((error: { code: string }) => error.code);
    assert.equal(json.type, `urn:svc:problems/${type}`, body);
    assert.ok(code === undefined ? emitted.length === 0 : emitted.includes(code), `${entry}: ${body}`);
  }
}

async function assertWarnings(place: Place): Promise<void> {
  await Deno.writeTextFile(`${place.root}/endless.jinja`, ENDLESS_TEMPLATE);
  await Deno.writeTextFile(`${place.root}/unstable.jinja`, UNSTABLE_TEMPLATE);
  const adapter = await fixturePath("models/tiny-agent/golden-lora/golden-lora.gguf");
  await Deno.copyFile(adapter, `${place.root}/adapter.gguf`);
  for (const code of WARNING_CODES) {
    const request = WARNINGS[code];
    if (typeof request !== "function") {
      console.log(`${code} is not tested here: ${request.lacks}`);
      continue;
    }
    const { status, json, body } = await emit(place, request);
    assert.equal(status, 200, `${code}: ${body}`);
    const emitted = json.warnings.map((warning: { code: string }) => warning.code);
    assert.ok(emitted.includes(code), `${code}: ${emitted}`);
  }
}

Deno.test("each type of problem is emitted, each of its codes, and each warning of a plan", () =>
  withPlace(async (place) => {
    await assertProblems(place);
    await assertWarnings(place);
  }));
