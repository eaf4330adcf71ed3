/** Local sandboxes for tests. */

import type { Isolation } from "./bubblewrap.ts";
import { ManualClock } from "../../core/clock_fake.ts";
import { findIsolation } from "./bubblewrap.ts";
import { LocalSandbox } from "./local_sandbox.ts";
import type { TestedSandbox } from "../tools/called_tools_testing.ts";
import { WORKSPACE_PREFIX } from "./workspace.ts";

/** Why tests with bubblewrap cannot run here; null: they can. With `REQUIRE_CONTAINERS=1` they always run. */
export async function bubblewrapLack(): Promise<string | null> {
  const state = await findIsolation();
  return state.isolation || Deno.env.get("REQUIRE_CONTAINERS") === "1" ? null : state.reason;
}

/** Opens a sandbox in a new folder. */
export async function openLocalSandbox(
  isolation: Isolation | null,
  { dir, ...more }: { dir?: string; proc?: string } = {},
): Promise<TestedSandbox & { sandbox: LocalSandbox }> {
  const clock = new ManualClock();
  const root = await Deno.realPath(await Deno.makeTempDir({ prefix: WORKSPACE_PREFIX, ...dir && { dir } }));
  const sandbox = new LocalSandbox(root, { limits: { exec_timeout_secs: 30 }, clock, isolation, ...more });
  return { sandbox, clock, close: () => sandbox.remove() };
}
