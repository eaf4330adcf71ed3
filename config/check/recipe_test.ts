import assert from "node:assert/strict";
import { expandFork, expandRecipe, keysOfField, type Recipe } from "./recipe.ts";

const GRPO: Recipe = {
  recipe: "agent_grpo",
  model: "/m.gguf",
  scenarios: "/s.jsonl",
  objective: { environment: "box", mcp_servers: ["a", "b"] },
  budget: { updates: 7 },
  params: { "training.lr": 1e-4, "agent.environment.limits.cpus": 2 },
};

const plain = (tree: unknown) => JSON.parse(JSON.stringify(tree));
const at = (recipe: Recipe, key: string) =>
  `/${
    expandRecipe(recipe).placeOf(key.split(".").map((part) => /^\d+$/.test(part) ? Number(part) : part)).join(
      "/",
    )
  }`;

Deno.test("a recipe becomes the configuration that it is short for", () => {
  assert.deepEqual(plain(expandRecipe(GRPO).tree), {
    run: { algorithm: "agent_grpo" },
    model: { path: "/m.gguf" },
    training: { lr: 1e-4 },
    agent: {
      scenarios: "/s.jsonl",
      updates: 7,
      environment: { id: "box", limits: { cpus: 2 } },
      mcp_servers: [{ id: "a" }, { id: "b" }],
    },
    checkpoint: {},
    observe: {},
  });
  const sft: Recipe = {
    recipe: "sft",
    model: "/m.gguf",
    data: "ds_1",
    budget: { epochs: 2, minutes: 9, updates: 5 },
  };
  assert.deepEqual(plain(expandRecipe(sft).tree), {
    run: { algorithm: "sft" },
    model: { path: "/m.gguf" },
    sft: { data: "ds_1" },
    training: { epochs: 2, max_minutes: 9, updates: 5 },
    checkpoint: {},
  });
});

Deno.test("without a budget an agent's recipe has the default number of updates", () => {
  const { budget: _, ...rest } = GRPO;
  assert.equal(plain(expandRecipe(rest).tree).agent.updates, 100);
});

Deno.test("a key is placed at the field that stands for it", () => {
  assert.equal(at(GRPO, "training.lr"), "/params/training.lr");
  assert.equal(at(GRPO, "model.path"), "/model");
  assert.equal(at(GRPO, "agent.mcp_servers.1.id"), "/objective/mcp_servers/1");
  assert.equal(at(GRPO, "agent.updates"), "/budget/updates");
  assert.equal(at(GRPO, "agent.environment.limits.cpus"), "/params/agent.environment.limits.cpus");
  assert.equal(at(GRPO, "agent.environment"), "/objective/environment");
  assert.equal(at(GRPO, "agent.group_size"), "/params/agent.group_size");
  assert.equal(at(GRPO, "agent"), "/objective");
  assert.equal(at(GRPO, "training"), "/params/training");
  assert.equal(at({ ...GRPO, params: { agent: {} } }, "agent"), "/params/agent");
  assert.equal(at({ recipe: "sft", model: "m" }, "sft.data"), "/data");
});

Deno.test("a field sets the keys of every algorithm's recipe", () => {
  const keys = (field: string) => keysOfField(field).map((key) => key.join(".")).sort();
  assert.deepEqual(keys("budget"), [
    "agent.updates",
    "training.epochs",
    "training.max_minutes",
    "training.updates",
  ]);
  assert.deepEqual(keys("data"), ["preference.data", "sft.data"]);
  assert.deepEqual(keys("scenarios"), ["agent.scenarios"]);
  assert.deepEqual(keys("objective"), [
    "agent.environment",
    "agent.judge",
    "agent.mcp_servers",
    "agent.reward",
  ]);
  assert.deepEqual(keys("limits"), []);
});

Deno.test("a parameter that another field sets too is a conflict, unless both say the same", () => {
  const findings = (params: Record<string, unknown>) =>
    expandRecipe({ ...GRPO, params }).findings.map(({ path, is_conflict }) => [path.join("/"), is_conflict]);
  assert.deepEqual(findings({ "model.path": "/other.gguf" }), [["params/model.path", true]]);
  assert.deepEqual(findings({ "model.path": "/m.gguf" }), []);
  assert.deepEqual(findings({ "agent.updates": 8 }), [["params/agent.updates", true]]);
  assert.deepEqual(findings({ "agent.environment": { id: "x" } }), [["params/agent.environment", true]]);
  assert.deepEqual(findings({ lora: { rank: 4 }, "lora.rank": 8 }), [["params/lora.rank", true]]);
});

Deno.test("fields of other algorithms are findings, and the data is required", () => {
  const of = (recipe: Recipe) =>
    expandRecipe(recipe).findings.map(({ path, code }) => `${path.join("/")} ${code}`);
  assert.deepEqual(of({ recipe: "sft", model: "m", scenarios: "s", objective: {} }), [
    "data missing_field",
    "scenarios invalid_value",
    "objective invalid_value",
  ]);
  assert.deepEqual(of({ ...GRPO, data: "d", budget: { epochs: 1, minutes: 2 } }), [
    "data invalid_value",
    "budget/epochs invalid_value",
    "budget/minutes invalid_value",
  ]);
});

Deno.test("a parameter can name an entry that a list has, and no other", () => {
  const { tree, findings } = expandRecipe({
    ...GRPO,
    params: { "agent.mcp_servers.1.required": false, "agent.mcp_servers.4294967290.required": false },
  });
  assert.deepEqual(plain(tree).agent.mcp_servers, [{ id: "a" }, { id: "b", required: false }]);
  assert.deepEqual(findings.map(({ path, code }) => [path.join("/"), code]), [
    ["params/agent.mcp_servers.4294967290.required", "unknown_field"],
  ]);
});

Deno.test("odd parameter names reach the check of keys and nothing else", () => {
  const { tree } = expandRecipe({ ...GRPO, params: { "__proto__.polluted": 1, "constructor": 2, "": 3 } });
  assert.equal(({} as { polluted?: number }).polluted, undefined);
  assert.deepEqual(Object.keys(tree).sort(), [
    "",
    "__proto__",
    "agent",
    "checkpoint",
    "constructor",
    "model",
    "observe",
    "run",
  ]);
});

Deno.test("a fork is its parent with changes, and what it does not set is placed at the parent", () => {
  const parent = { run: { algorithm: "sft" }, model: { path: "/m" }, sft: { data: "/d" }, lora: { rank: 4 } };
  const { tree, placeOf, sets } = expandFork(parent, { budget: { updates: 9 }, params: { "lora.rank": 8 } });
  assert.deepEqual(plain(tree), { ...parent, lora: { rank: 8 }, training: { updates: 9 } });
  assert.deepEqual(parent.lora, { rank: 4 });
  assert.deepEqual([sets(["lora", "rank"]), sets(["sft", "data"]), sets(["run", "algorithm"])], [
    true,
    false,
    false,
  ]);
  const places = ["lora.rank", "training.updates", "sft.data", "model.path"].map((key) =>
    placeOf(key.split(".")).join("/")
  );
  assert.deepEqual(places, ["params/lora.rank", "budget/updates", "fork_from/run", "fork_from/run"]);
});

Deno.test("of a fork without a known parent the parameters can still be read", () => {
  const { tree, findings } = expandFork({}, { data: "/d", params: { "lora.rank": 8 } });
  assert.deepEqual([plain(tree), findings], [{ lora: { rank: 8 } }, []]);
});
