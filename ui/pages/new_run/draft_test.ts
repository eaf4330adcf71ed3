import assert from "node:assert/strict";
import type { Plan } from "../../../api/types.ts";
import type { ConfigKey } from "../../client/config_schema.ts";
import { configOf, type Draft, draftOf, EMPTY_DRAFT, recipeOf } from "./draft.ts";
import { algorithmFor, type Offers, prefilled } from "./offers.ts";

const KEYS: ReadonlyMap<string, ConfigKey> = new Map(
  [["evaluation.data", "string"], ["training.lr", "number"], ["lora.targets", null]].map(([key, type]) => [
    key!,
    { key: key!, type: type!, description: "", default: undefined, values: null },
  ]),
);

const GRPO: Draft = {
  ...EMPTY_DRAFT,
  ...{ recipe: "agent_grpo", name: " Night run ", model: "/m.gguf", data: "ds_1" },
  objective: { environment: "box", reward: "", judge: "critic", mcp_servers: ["search"] },
  budget: { updates: "20", epochs: "3", minutes: "" },
  params: {
    "training.lr": "3e-3",
    "agent.group_size": "8",
    "sft.packing": "false",
    "lora.targets": '["q_proj"]',
  },
  allow: ["truncate_context"],
  limits: { vram: "8GiB", ram: "0.5" },
};

Deno.test("a recipe has the fields of its algorithm, numbers as numbers, and nothing that was left empty", () => {
  assert.deepEqual(recipeOf(GRPO, KEYS), {
    ...{ recipe: "agent_grpo", name: "Night run", model: "/m.gguf", scenarios: "ds_1" },
    objective: { environment: "box", judge: "critic", mcp_servers: ["search"] },
    budget: { updates: 20 },
    params: { "training.lr": 3e-3, "agent.group_size": 8, "lora.targets": ["q_proj"] },
    allow: ["truncate_context"],
    limits: { vram: "8GiB", ram: 0.5 },
  });
  assert.deepEqual(
    recipeOf({ ...GRPO, recipe: "sft", params: { "agent.max_turns": "3" }, allow: [] }, KEYS),
    {
      ...{ recipe: "sft", name: "Night run", model: "/m.gguf", data: "ds_1" },
      budget: { updates: 20, epochs: 3 },
      limits: { vram: "8GiB", ram: 0.5 },
    },
  );
  assert.deepEqual(recipeOf(EMPTY_DRAFT, KEYS), { recipe: "sft" });
});

Deno.test("another run like one has what its author set, and nothing that a rule derived", () => {
  const config = {
    run: { algorithm: "agent_grpo", seed: 42 },
    model: { path: "/m.gguf" },
    agent: {
      ...{ scenarios: "ds_1", updates: 20, group_size: 8, max_turns: 6, reward: "grader" },
      environment: { id: "box", limits: { exec_timeout_secs: 9 } },
      mcp_servers: [{ id: "search" }],
    },
    training: { lr: 3e-3, ctx: 1024 },
    checkpoint: { every_updates: 10 },
  };
  const sources: Plan["sources"] = {
    ...{ "run.seed": "default", "agent.max_turns": "default", "training.ctx": "derived" },
    ...{ "checkpoint.every_updates": "derived", "training.lr": "override", "agent.group_size": "override" },
  };
  const run = { algorithm: "agent_grpo" as const, config, plan: { sources } as Plan };
  assert.deepEqual(draftOf(run), {
    ...EMPTY_DRAFT,
    ...{ recipe: "agent_grpo", model: "/m.gguf", data: "ds_1" },
    objective: { environment: "box", reward: "grader", judge: "", mcp_servers: ["search"] },
    budget: { updates: "20", epochs: "", minutes: "" },
    params: {
      ...{ "agent.group_size": "8", "agent.environment.limits.exec_timeout_secs": "9" },
      "training.lr": "0.003",
    },
  });
  const narrowed = structuredClone(run);
  narrowed.config.agent.mcp_servers = [{ id: "search", allowed_tools: ["find"] } as { id: string }];
  assert.equal(draftOf(narrowed), null);
  assert.equal(draftOf({ ...run, plan: null }), null);
});

Deno.test("what a draft says of the configuration is read back as the same draft", () => {
  const draft = {
    ...GRPO,
    name: "",
    params: { "training.lr": "0.003" },
    allow: [],
    limits: EMPTY_DRAFT.limits,
  };
  draft.budget = { updates: "20", epochs: "", minutes: "" };
  const config = configOf(draft, KEYS);
  assert.deepEqual([config.checkpoint, config.observe], [{}, {}]);
  delete config.checkpoint;
  delete config.observe;
  assert.deepEqual(draftOf({ algorithm: "agent_grpo", config, plan: { sources: {} } as Plan }), draft);
});

Deno.test("fields with one choice are filled, and what was chosen stays", () => {
  const offers = {
    models: [
      { path: "/a.gguf", type: "model", trainable: true, tool_call_format: "hermes" },
      { path: "/d.gguf", type: "model", trainable: true, tool_call_format: "none" },
      { path: "/e.gguf", type: "model", trainable: true, tool_call_format: null },
      { path: "/b.gguf", type: "model", trainable: false },
      { path: "/c.gguf", type: "adapter", trainable: true },
    ],
    datasets: [{ id: "ds_1", kind: null }, { id: "ds_2", kind: "scenarios" }],
    environments: [{ id: "box" }],
  } as unknown as Offers;
  assert.equal(algorithmFor(offers), "agent_grpo");
  const filled = prefilled({ ...EMPTY_DRAFT, recipe: "agent_grpo" }, offers);
  assert.deepEqual([filled.model, filled.data, filled.objective.environment], ["/a.gguf", "ds_2", "box"]);
  const chosen = { ...GRPO, objective: { ...GRPO.objective, environment: "", reward: "grader" } };
  assert.deepEqual(prefilled(chosen, offers), chosen);
  assert.equal(prefilled(EMPTY_DRAFT, offers).model, "", "every model has examples");
  const twice = { ...offers, models: [...offers.models, ...offers.models] };
  assert.equal(prefilled({ ...EMPTY_DRAFT, recipe: "agent_grpo" }, twice).model, "");
});
