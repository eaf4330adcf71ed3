import assert from "node:assert/strict";
import { ManualClock } from "../../core/clock_fake.ts";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import { testConfig } from "../config_testing.ts";
import { testAgentHost } from "../run_fake.ts";

const request = {
  messages: [{ role: "user" as const, content: "abc" }],
  tools: [],
  temperature: 1,
  top_p: 1,
  rng_key: [1, 2, 3, 4] as never,
  adapter: null,
};

Deno.test("a request's new tokens end with the context; a prompt that fills it is refused", async () => {
  const asked: number[] = [], opened: number[] = [];
  const { client: engine } = new ScriptedEngine({
    refuse(method, given) {
      const { max_tokens, tokens } = given as { max_tokens: number; tokens: number[] };
      if (method === "sequence_generate") asked.push(max_tokens);
      if (method === "sequence_open") opened.push(tokens.length);
    },
  });
  const config = testConfig("/nowhere");
  const host = testAgentHost({ config, engine, clock: new ManualClock() });
  const { signal } = new AbortController();
  await host.generate({ ...request, max_new_tokens: 5 }, signal);
  await host.generate({ ...request, max_new_tokens: 1_000_000 }, signal);
  assert.deepEqual(asked, [5, config.training.ctx - opened[0]!]);
  const long = {
    ...request,
    messages: [{ role: "user" as const, content: "a".repeat(config.training.ctx) }],
  };
  await assert.rejects(host.generate({ ...long, max_new_tokens: 5 }, signal), {
    code: "config_invalid",
    message: /training\.ctx is 256/,
  });
  assert.equal(opened.length, 2);
});
