import assert from "node:assert/strict";
import { ENVIRONMENT_KINDS, missingPart } from "../environments.ts";
import { BUILT_ALGORITHMS, HAS_MCP } from "./built.ts";
import { checkRunConfig } from "./load.ts";
import { ALGORITHMS } from "../algorithms.ts";

/** Whether a one-line configuration is refused because of a part that is not built. */
function isRefused(line: string): boolean {
  const { problems } = checkRunConfig(`${line}\n`, { path: "c.toml" });
  return problems.some(({ code }) => code === "not_built");
}

Deno.test("an algorithm is reported as built exactly when a configuration may name it", () => {
  for (const algorithm of ALGORITHMS) {
    const is_built = BUILT_ALGORITHMS.includes(algorithm);
    assert.equal(is_built, !isRefused(`run.algorithm = "${algorithm}"`), algorithm);
  }
});

Deno.test("an environment has a missing part exactly when a configuration with it is refused", () => {
  for (const type of ["container", "local", "http"] as const) {
    assert.equal(
      missingPart(ENVIRONMENT_KINDS[type]) !== null,
      isRefused(`agent.environment.type = "${type}"`),
      type,
    );
  }
  assert.equal(HAS_MCP, !isRefused('agent.mcp_servers = [{ name = "x" }]'));
});
