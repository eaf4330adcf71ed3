/** A recipe and the text that the interface makes of it: the server plans the same run from both. */

import assert from "node:assert/strict";
import type { Plan } from "../api/types.ts";
import { configKeysOf } from "../ui/client/config_schema.ts";
import { type Draft, draftOf, EMPTY_DRAFT, recipeOf } from "../ui/pages/new_run/draft.ts";
import { lineErrors } from "../ui/pages/new_run/places.ts";
import { tomlOf } from "../ui/pages/new_run/toml_text.ts";
import { type PlanApp, postJson, postToml, withPlans } from "./plan_app.ts";

async function planOf(answer: ReturnType<PlanApp["send"]>): Promise<Plan> {
  const { status, body, json } = await answer;
  assert.equal(status, 200, body);
  return json;
}

/** Drafts of recipes that differ in what the server adds to them. */
function drafts({ model, scenarios, traces }: PlanApp["files"]): Record<string, Draft> {
  const sft: Draft = { ...EMPTY_DRAFT, recipe: "sft", model, data: traces };
  return {
    "with nothing but what is needed": sft,
    "with values of several types": {
      ...sft,
      name: 'a "name"',
      budget: { updates: "3", epochs: "", minutes: "2.5" },
      params: {
        "training.lr": "1e-3",
        "sft.packing": "false",
        "sft.template_variables": '{"enable_thinking": false, "a b": [1, "x"]}',
        "lora.targets": '["q_proj", "v_proj"]',
      },
    },
    "with levers and a shorter context, chosen for it": {
      ...EMPTY_DRAFT,
      ...{ recipe: "agent_grpo", model, data: scenarios, allow: ["truncate_context"] },
      objective: { environment: "box", reward: "", judge: "critic", mcp_servers: [] },
      params: { "agent.environment.limits.exec_timeout_secs": "9", "agent.max_new_tokens_per_turn": "64" },
      limits: { vram: "80MiB", ram: "" },
    },
  };
}

Deno.test("the text of a recipe is planned as the recipe was, and a draft of it is the recipe again", async () => {
  await withPlans(async ({ send, files }) => {
    const schema = await send("/v1/config-schema"), { keys } = configKeysOf(schema.json);
    for (const [what, draft] of Object.entries(drafts(files))) {
      const plan = await planOf(send("/v1/plan", postJson(recipeOf(draft, keys))));
      const chosen = plan.warnings.filter(({ code }) => /^(lever_applied|context_truncated)$/.test(code));
      assert.equal(chosen.length > 1, draft.limits.vram !== "", what);
      const text = tomlOf(plan, draft.name);
      const again = await planOf(send("/v1/plan", postToml(text)));
      assert.deepEqual(again.config, plan.config, `${what}:\n${text}`);
      assert.deepEqual(again.schedule, plan.schedule, what);
      const like = draftOf({ algorithm: draft.recipe, config: plan.config, plan });
      assert.ok(like, what);
      const limits = { limits: draft.limits, allow: draft.allow };
      const third = await planOf(send("/v1/plan", postJson(recipeOf({ ...like, ...limits }, keys))));
      assert.deepEqual(third.config, plan.config, what);
    }
  });
});

Deno.test("the server's problems with a text are at the lines of the keys that it refuses", async () => {
  await withPlans(async ({ send, files }) => {
    const text = `[run]
algorithm = "sft"
[model]
path = "${files.model}"
[sft]
data = "${files.traces}"
[training]
lr = 9
batch_token = 1
`;
    const linesOf = async (text: string) => {
      const { json } = await send("/v1/plan", postToml(text));
      return lineErrors(text, json);
    };
    assert.deepEqual((await linesOf(text)).map(({ line }) => line), [8, 9]);
    const [syntax] = await linesOf(text.replace("[sft]", "[sft"));
    assert.equal(syntax!.line, 5);
    assert.ok(syntax!.column! > 1 && !/line \d/.test(syntax!.message), JSON.stringify(syntax));
  });
});
