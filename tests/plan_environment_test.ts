/** Plans with an environment server of the operator's catalogue. */

import assert from "node:assert/strict";
import { answerRequest } from "../examples/tiny_agent_environment.ts";
import { stringify } from "smol-toml";
import { postJson, withPlans } from "./plan_app.ts";

Deno.test("an environment server is named by its id, asked for its tools, and not shown", async () => {
  const paths: string[] = [], keys: (string | null)[] = [];
  const serving = { hostname: "127.0.0.1", port: 0, onListen() {} };
  const server = Deno.serve(serving, (request) => {
    paths.push(new URL(request.url).pathname);
    keys.push(request.headers.get("authorization"));
    return answerRequest(request);
  });
  const base_url = `http://127.0.0.1:${server.addr.port}`, api_key_env = "SVC_TEST_PLAN_KEY";
  const toml = `[[environments]]\n${stringify({ id: "web", type: "http", base_url, api_key_env })}\n`;
  Deno.env.set(api_key_env, "hidden-key");
  await withPlans(async ({ send, files: { model, scenarios } }) => {
    const { json: listed } = await send("/v1/environments");
    assert.deepEqual(listed.environments, [{ id: "web", description: "", type: "http" }]);
    const recipe = {
      ...{ recipe: "agent_grpo", model, scenarios, objective: { environment: "web" } },
      params: { "training.ctx": 1024, "agent.environment.limits.exec_timeout_secs": 5 },
    };
    const plan = () => send("/v1/plan", postJson(recipe));
    const planned = await plan();
    assert.equal(planned.status, 200, planned.body);
    assert.deepEqual(planned.json.config.agent.environment, { id: "web", limits: { exec_timeout_secs: 5 } });
    assert.ok(keys.every((key) => key === "Bearer hidden-key"), keys.join());
    assert.ok(paths.length > 0 && paths.every((path) => path === "/tools"), paths.join());
    await server.shutdown();
    const refused = await plan();
    assert.deepEqual(
      [refused.status, refused.json.errors.map(({ pointer }: { pointer: string }) => pointer)],
      [
        422,
        ["/objective/environment"],
      ],
    );
    assert.match(
      refused.json.detail,
      /: GET \/tools was refused: no server listens there; start the server, or/,
    );
    for (const { body } of [planned, refused]) assert.ok(!body.includes("hidden"), body);
  }, { toml }).finally(() => Deno.env.delete(api_key_env));
});
