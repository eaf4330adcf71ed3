import assert from "node:assert/strict";
import type { ResolvedAgent } from "../config/derive.ts";
import { ManualClock } from "../core/clock_fake.ts";
import { configuredWorld } from "./configured.ts";

/** Builds the environment of an `[agent.environment]` of this type. */
function worldOf(type: string) {
  const environment = {
    ...{ type, allow_unsandboxed: true, tools: { default: "files" }, scenario_toolsets: [] },
    limits: { exec_timeout_secs: 7 },
  };
  const agent = { environment } as unknown as ResolvedAgent;
  return configuredWorld({ agent }, { clock: new ManualClock(), workspaces: "/nowhere" });
}

Deno.test("a configuration's environments and graders are those of its section", () => {
  const world = worldOf("local")!;
  assert.deepEqual([world.environments.type, world.environments.call_timeout_ms], ["local", 7000]);
  assert.deepEqual(world.graders.map(({ source }) => source), ["environment"]);
});

Deno.test("a run without rollouts has no environments, and a type that is not built is refused", () => {
  assert.equal(configuredWorld({}, { clock: new ManualClock(), workspaces: "/nowhere" }), null);
  for (const type of ["container", "http"]) {
    assert.throws(() => worldOf(type), {
      code: "not_built",
      message: /agent\.environment\.type = "\w+": not in/,
    });
  }
});
