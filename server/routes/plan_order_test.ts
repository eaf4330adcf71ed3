/** `POST /v1/plan` and `POST /v1/runs`: the class of a request's problems, and all problems of that class. */

import assert from "node:assert/strict";
import { postJson, postToml, withPlans } from "../../tests/plan_app.ts";
import { refusal } from "../app_testing.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

/** A recipe of agent_grpo without an objective. */
const recipeOf = ({ model, scenarios }: { model: string; scenarios: string }) => ({
  ...{ recipe: "agent_grpo", model, scenarios, budget: { updates: 2 } },
});

Deno.test(
  "all problems of a request's form come at once, wherever they are",
  strict,
  () =>
    withPlans(async ({ send, files }) => {
      const recipe = { ...recipeOf(files), name: "", limits: { vram: -1 }, params: { "training.lrr": 1 } };
      const form = [
        "/limits/vram invalid_value",
        "/name invalid_value",
        "/params/training.lrr unknown_field",
      ];
      const rule = "/objective missing_field";
      assert.deepEqual(refusal(await send("/v1/plan?x=1", postJson(recipe))), [422, "invalid-request", [
        "/query/x unknown_field",
        ...form,
        rule.replace("missing_field", "invalid_value"),
      ]]);
      // A field that is wrong leaves the others to be checked; what follows from it is not told.
      const unnamed = { ...recipe, recipe: "x", budget: { updates: "2" } };
      assert.deepEqual(refusal(await send("/v1/plan", postJson(unnamed))), [422, "invalid-request", [
        "/recipe invalid_value",
        "/budget/updates invalid_value",
        ...form,
      ]]);
      const short = {
        ...recipeOf(files),
        model: 3,
        budget: { updates: "2" },
        params: { "agent.max_turns": 0 },
      };
      assert.deepEqual(refusal(await send("/v1/plan", postJson(short)))[2], [
        "/model invalid_value",
        "/budget/updates invalid_value",
        "/params/agent.max_turns out_of_range",
        "/objective invalid_value",
      ]);
      // Without an objective that can be read it is not known whether it has a source of reward.
      const odd = { ...recipeOf(files), objective: { rewrad: "x" } };
      assert.deepEqual(refusal(await send("/v1/plan", postJson(odd)))[2], [
        "/objective/rewrad unknown_field",
      ]);
      // What JSON would silently change, and a name that is too long, leave the rest to be read.
      const long = "x".repeat(1025), plain = JSON.stringify({ ...unnamed, [long]: { name: 1 } });
      const body = plain.replace('"updates":"2"', '"updates":"2","updates":"3","minutes":"\\ud800"');
      assert.deepEqual(refusal(await send("/v1/plan?x=1", { ...postJson({}), body }))[2], [
        ...["/query/x unknown_field", "/budget/updates invalid_value", "/budget/minutes invalid_value"],
        ...[" invalid_value", "/recipe invalid_value", ...form],
      ]);
      const key = { "idempotency-key": "ü" };
      assert.deepEqual(refusal(await send("/v1/runs", postJson({ ...recipe, objective: {} }, key)))[2], [
        " invalid_value",
        ...form,
        rule.replace("missing_field", "invalid_value"),
      ]);
      const text =
        `name = ""\nfork_from = 3\n[run]\nalgorithm = "sft"\n[model]\npath = "m"\n[training]\nlrr = 1\n`;
      assert.deepEqual(refusal(await send("/v1/runs", postToml(text, key)))[2], [
        " invalid_value",
        "/name invalid_value",
        "/fork_from invalid_value",
        "/training/lrr unknown_field",
        "/sft missing_field",
      ]);
      assert.deepEqual(refusal(await send("/v1/runs", postToml("a = [", key)))[2], [
        " invalid_value",
        " invalid_value",
      ]);
      const fork = { fork_from: { run: "run_x" }, params: { "training.lr": "fast", "lora.rnk": 1 } };
      assert.deepEqual(refusal(await send("/v1/plan", postJson(fork))), [422, "invalid-request", [
        "/params/lora.rnk unknown_field",
        "/params/training.lr invalid_value",
      ]]);
    }),
);

Deno.test(
  "the rules of the form come before what only the operator declares",
  strict,
  () =>
    withPlans(async ({ send, files }) => {
      const request = {
        ...recipeOf(files),
        objective: { judge: { base_url: "http://x" } },
        params: {
          "agent.environment.image": "x",
          "agent.optimizer_steps_per_update": 9,
          "training.ctx": 512,
          "agent.max_trajectory_tokens": 1024,
        },
      };
      const broken = ["agent.max_trajectory_tokens", "agent.optimizer_steps_per_update"];
      assert.deepEqual(refusal(await send("/v1/plan", postJson(request))), [
        ...[422, "invalid-request"],
        broken.map((key) => `/params/${key} invalid_value`),
      ]);
      for (const key of broken) delete (request.params as Record<string, unknown>)[key];
      assert.deepEqual(refusal(await send("/v1/plan", postJson(request))), [422, "server-declared", [
        "/params/agent.environment.image server_declared",
        "/objective/judge server_declared",
      ]]);
      // An environment without an id lacks nothing but that.
      const { objective: _, ...nameless } = { ...request, params: { "agent.environment.limits.cpus": 1 } };
      assert.deepEqual(refusal(await send("/v1/plan", postJson(nameless)))[2], [
        "/objective/environment missing_field",
      ]);
    }),
);

Deno.test(
  "what only an entry of the catalogue tells comes after paths, files and ids",
  strict,
  () =>
    withPlans(async ({ send, files, root }) => {
      await Deno.writeTextFile(`${root}/no_model`, "no model");
      const request = {
        ...recipeOf({ ...files, model: "/etc/passwd" }),
        // The server of the catalogue is not stateless, and stands beside an environment.
        objective: { environment: "box", mcp_servers: ["search"] },
        params: { "agent.environment.limits.exec_timeout_secs": 21, "agent.updates": 5 },
      };
      const next = async (status: number, type: string, ...entries: string[]) =>
        assert.deepEqual(refusal(await send("/v1/plan", postJson(request))), [status, type, entries]);
      await next(403, "forbidden-path", "/model forbidden_path");
      request.model = `${root}/none`;
      await next(422, "invalid-request", "/model path_not_found");
      request.model = `${root}/no_model`;
      await next(422, "invalid-request", "/model invalid_value");
      request.model = files.model;
      request.objective.mcp_servers = ["nowhere"];
      await next(422, "unknown-catalog-id", "/objective/mcp_servers/0 unknown_catalog_id");
      request.objective.mcp_servers = ["search"];
      const { json } = await send("/v1/plan", postJson(request));
      assert.equal(json.type, "urn:svc:problems/invalid-request");
      const pointers = json.errors.map(({ pointer }: { pointer: string }) => pointer);
      assert.deepEqual(pointers, [
        "/params/agent.environment.limits.exec_timeout_secs",
        "/objective/mcp_servers/0",
      ]);
    }),
);

Deno.test(
  "every broken line of the data is told at its field",
  strict,
  () =>
    withPlans(async ({ send, files: { model }, root }) => {
      const data = `${root}/broken.jsonl`;
      await Deno.writeTextFile(data, '{"messages": 3}\n{"text": "a"}\n{');
      const { status, json } = await send("/v1/plan", postJson({ recipe: "sft", model, data }));
      assert.equal(status, 422);
      const lines = json.errors.map(({ pointer, message }: Record<string, string>) =>
        `${pointer} ${/broken\.jsonl:\d/.exec(message!)}`
      );
      assert.deepEqual(lines, ["/data broken.jsonl:1", "/data broken.jsonl:3"]);
    }),
);
