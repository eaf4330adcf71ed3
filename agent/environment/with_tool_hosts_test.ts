import { deepEqual, equal } from "node:assert/strict";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import {
  callText,
  rolloutGroups,
  TEST_TOOLS,
  testEnvironments,
  testRollout,
  testScenarios,
  turnTokens,
} from "../rollout/rollout_fake.ts";
import type { HostedTools } from "../tools/tool_host.ts";
import { withToolHosts } from "./with_tool_hosts.ts";

const clock_host: HostedTools = {
  tools: [{ name: "time", description: "", parameters: { type: "object", properties: {} } }],
  host: { call: () => Promise.resolve({ result: "noon", reward: null, done: false }) },
};

Deno.test("an attempt calls the tools of its environment and those of another host", async () => {
  const own = testEnvironments();
  const environment = withToolHosts(own, [clock_host]);
  const turns = [callText("time"), callText("say", { text: "hi" }), callText("end")];
  const engine = new ScriptedEngine({ script: ({ turn }) => turnTokens(turns[turn]!) });
  const [group] = await Array.fromAsync(rolloutGroups(testRollout(engine.client, { environment })));
  const [member] = group!.members;
  deepEqual(group!.tools.map(({ name }) => name), [...TEST_TOOLS.map(({ name }) => name), "time"]);
  deepEqual(member!.turns.map(({ calls }) => calls[0]!.result), ["noon", "ok", null]);
  // The environment's own reward: the text of its `say` tool.
  deepEqual([member!.stop_reason, member!.total_reward, own.live], ["completed", 1, 0]);
});

Deno.test("environments without other hosts stay the same", async () => {
  const own = testEnvironments();
  equal(withToolHosts(own, []), own);
  const [scenario] = testScenarios("s");
  deepEqual((await own.catalog(scenario!)).tools, TEST_TOOLS);
});
