/** Plans with a reward of the operator's catalogue. */

import assert from "node:assert/strict";
import { fixturePath } from "../../tests/fixture.ts";
import { ASSUMED_DEVICE } from "../../tests/assumed_device.ts";
import { withJobApp } from "../jobs_testing.ts";

const CATALOGUE = `
[[rewards]]
id = "grader"
command = ["/opt/secret/grade", "--key", "secret"]
timeout_secs = 7
cwd = "/opt/secret"
`;

Deno.test("a reward is named by its id, and nothing else of it is shown", () =>
  withJobApp(async ({ send, root }) => {
    const model = `${root}/m.gguf`, scenarios = `${root}/plain.jsonl`;
    await Deno.copyFile(await fixturePath("models/tiny-agent-f16.gguf"), model);
    // Tasks without a verification, and without an environment.
    const lines = Array.from({ length: 4 }, (_, i) => `{"id":"t${i}","user":"u"}\n`);
    await Deno.writeTextFile(scenarios, lines.join(""));
    const plan = (body: unknown) =>
      send("/v1/plan", {
        ...{ method: "POST", headers: { "content-type": "application/json" } },
        body: JSON.stringify(body),
      });
    const recipe = (reward: unknown, params = {}) => ({
      ...{ recipe: "agent_grpo", model, scenarios, objective: { reward } },
      params: { "training.ctx": 1024, "agent.judge_failure": "fail", ...params },
    });
    const { status, json, body } = await plan(recipe("grader"));
    assert.equal(status, 200, body);
    assert.deepEqual([json.config.agent.reward, json.sources["agent.reward"]], ["grader", "override"]);
    assert.deepEqual(Object.keys(json.sources).filter((key) => key.startsWith("agent.reward.")), []);
    assert.ok(!body.includes("secret"));
    const agent = { scenarios, updates: 1, reward: "grader" };
    const whole = await plan({ config: { run: { algorithm: "agent_grpo" }, model: { path: model }, agent } });
    assert.deepEqual([whole.status, whole.json.config?.agent.reward], [200, "grader"]);
    const refused = async (reward: unknown) => {
      const { status, json } = await plan(recipe(reward));
      return [
        status,
        json.type,
        json.errors.map(({ pointer, code }: Record<string, string>) => [pointer, code]),
      ];
    };
    assert.deepEqual(await refused("other"), [422, "urn:svc:problems/unknown-catalog-id", [
      ["/objective/reward", "unknown_catalog_id"],
    ]]);
    assert.deepEqual(await refused({ command: ["x"] }), [422, "urn:svc:problems/server-declared", [
      ["/objective/reward", "server_declared"],
    ]]);
  }, { toml: CATALOGUE, probeDevices: () => Promise.resolve([{ ...ASSUMED_DEVICE, vram_bytes: 2 ** 33 }]) }));
