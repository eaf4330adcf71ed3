/** Apps that plan runs of real files with real jobs. */

import { ASSUMED_DEVICE } from "./assumed_device.ts";
import { fixturePath } from "./fixture.ts";
import type { Given, TestAppOptions } from "../server/app_testing.ts";
import { type JobApp, withJobApp } from "../server/jobs_testing.ts";
import { writeTraces } from "./small_sft.ts";

/** The operator's catalogue of these apps. */
export const CATALOGUE = `
[[environments]]
id = "box"
type = "local"
allow_unsandboxed = true
scenario_toolsets = ["files"]
[environments.limits]
exec_timeout_secs = 20
[[environments]]
id = "sealed"
type = "container"
profile = "custom"
image = "localhost/svc-lab:1"
scenario_toolsets = ["files"]
[[judges]]
id = "critic"
model = "m"
base_url = "http://127.0.0.1:1"
[[mcp_servers]]
id = "search"
command = ["search"]
allowed_tools = ["find", "open"]
denied_tools = ["open"]
`;

export const GIB = 2 ** 30;

const GPU = { ...ASSUMED_DEVICE, name: "Test GPU", vram_bytes: 8 * GIB };

/** An app with a model and data in its root. */
export interface PlanApp extends JobApp {
  files: Record<"model" | "scenarios" | "traces", string>;
}

/** Runs a test with such an app. */
export async function withPlans(
  body: (app: PlanApp) => Promise<void>,
  { toml = CATALOGUE, ...options }: TestAppOptions = {},
): Promise<void> {
  const sources = {
    model: await fixturePath("models/tiny-agent-f16.gguf"),
    scenarios: await fixturePath("models/tiny-agent/scenarios.train.jsonl"),
  };
  await withJobApp(async (app) => {
    const files = {
      model: `${app.root}/m.gguf`,
      scenarios: `${app.root}/s.jsonl`,
      traces: `${app.root}/t.jsonl`,
    };
    for (const [name, path] of Object.entries(sources)) {
      await Deno.copyFile(path, files[name as keyof typeof sources]);
    }
    await writeTraces(files.traces);
    await body({ ...app, files });
  }, { toml, probeDevices: () => Promise.resolve([GPU]), ...options });
}

/** A POST of JSON. */
export const postJson = (body: unknown, headers: Record<string, string> = {}): Given => ({
  method: "POST",
  headers: { "content-type": "application/json", ...headers },
  body: JSON.stringify(body),
});

/** A POST of TOML. */
export const postToml = (body: string, headers: Record<string, string> = {}): Given => ({
  method: "POST",
  headers: { "content-type": "application/toml", ...headers },
  body,
});
