/** An independent linter reads the stored OpenAPI document. */

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

interface Finding {
  ruleId: string;
  message: string;
  location: { pointer: string }[];
}

Deno.test("@redocly/cli finds no fault in the stored OpenAPI document", async () => {
  const { imports } = JSON.parse(await Deno.readTextFile(`${ROOT}deno.json`));
  const options = ["--allow-read", "--allow-env", "--allow-sys", imports["@redocly/cli"]];
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--no-prompt",
      ...options,
      "lint",
      "--config=tests/redocly.yaml",
      "--format=json",
      "api/openapi.json",
    ],
    cwd: ROOT,
    env: { REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true", NO_COLOR: "1" },
  }).output();
  const decoder = new TextDecoder(), text = decoder.decode(stdout);
  assert.ok(text.startsWith("{"), decoder.decode(stderr));
  const { problems }: { problems: Finding[] } = JSON.parse(text);
  const found = problems.map(({ ruleId, location }) => `${ruleId} ${location[0]!.pointer}`);
  assert.deepEqual(found, []);
});
