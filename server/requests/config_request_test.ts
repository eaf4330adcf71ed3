import assert from "node:assert/strict";
import { MAX_TOML_CHARS, readJsonRequest, readTomlRequest } from "./config_request.ts";
import { MAX_PARAMS } from "./run_request.ts";

const parentOf = () => Promise.reject(new Error("no fork"));

/** The entries of a refused body as `pointer message`. */
const said = (errors: readonly { pointer: string; message: string }[]) =>
  errors.map(({ pointer, message }) => `${pointer} ${message}`);

Deno.test("a recipe has a limited number of params", async () => {
  const recipe = (count: number) => ({
    ...{ recipe: "sft", model: "/m.gguf", data: "/d.jsonl" },
    params: Object.fromEntries(Array.from({ length: count }, (_, i) => [`training.k${i}`, 1])),
  });
  const message = `/params must have at most ${MAX_PARAMS} keys`;
  const { errors } = await readJsonRequest(recipe(MAX_PARAMS + 1), parentOf as never);
  assert.ok(said(errors).includes(message));
  const most = await readJsonRequest(recipe(MAX_PARAMS), parentOf as never);
  assert.ok(!said(most.errors).includes(message));
  assert.ok(most.errors.length >= MAX_PARAMS, "each unknown key is told");
});

Deno.test("a body that is no object has no other problem", () => {
  for (const value of [1, "x", null, [], [{}]]) {
    const { errors } = readJsonRequest(value, () => null);
    assert.deepEqual(errors.map(({ pointer, code }) => `${pointer} ${code}`), [" invalid_value"]);
  }
});

Deno.test("a configuration that is no object has no other problem", () => {
  for (const config of [5, [], "x", null]) {
    const { errors } = readJsonRequest({ config }, () => null);
    assert.deepEqual(errors.map(({ pointer }) => pointer), ["/config"]);
  }
});

Deno.test("data that a recipe lacks is named once", () => {
  const lacking = {
    sft: ["/data missing_field"],
    preference: ["/data missing_field"],
    agent_grpo: ["/scenarios missing_field", "/objective invalid_value"],
  };
  for (const [recipe, expected] of Object.entries(lacking)) {
    const { errors } = readJsonRequest({ recipe, model: "/m.gguf" }, () => null);
    assert.deepEqual(errors.map(({ pointer, code }) => `${pointer} ${code}`), expected);
  }
});

Deno.test("a TOML body is read up to a length", () => {
  const line = "[training]\nlr = 1e-4\n";
  const text = (length: number) => line + "#".repeat(length - line.length);
  const { errors } = readTomlRequest(text(MAX_TOML_CHARS + 1));
  assert.deepEqual(said(errors), [` is longer than ${MAX_TOML_CHARS} characters (line 1)`]);
  assert.ok(!said(readTomlRequest(text(MAX_TOML_CHARS)).errors).some((entry) => entry.includes("longer")));
});

Deno.test("around a wrong field only the rules about its own keys are left out", () => {
  const recipe = {
    recipe: "sft",
    model: "/m.gguf",
    params: { "evaluation.data": "h", "evaluation.patience": 2 },
  };
  const pointers = (more: object) =>
    readJsonRequest({ ...recipe, ...more }, () => null).errors.map(({ pointer }) => pointer);
  assert.deepEqual(pointers({ data: 5 }), ["/data", "/params/evaluation.patience"]);
  // Whether a reward grades the attempts is not known then, and neither is the number of updates.
  const agent = { recipe: "agent_grpo", scenarios: "s", params: {} };
  assert.deepEqual(pointers({ ...agent, objective: 5, budget: { updates: "2" } }), [
    "/objective",
    "/budget/updates",
  ]);
  assert.deepEqual(pointers({ ...agent, budget: { updates: "2" } }), ["/budget/updates", "/objective"]);
  // An objective that has no meaning is one problem.
  const sft = { data: "d", params: {}, objective: { environment: "box", reward: { command: ["x"] } } };
  assert.deepEqual(pointers(sft), ["/objective"]);
});
