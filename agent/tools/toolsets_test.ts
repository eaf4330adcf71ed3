import { deepEqual, equal, throws } from "node:assert/strict";
import { openAiTool } from "../../core/chat.ts";
import { offeredToolsets, TOOLSETS } from "./toolsets.ts";

const FIXTURE = new URL("../../fixtures/models/tiny-agent/tools.json", import.meta.url);

Deno.test("the toolset files has the definitions that the tiny agent was trained on, byte for byte", async () => {
  const expected = JSON.parse(await Deno.readTextFile(FIXTURE));
  const [files] = offeredToolsets({ tools: {}, scenario_toolsets: ["files"] });
  equal(JSON.stringify(files!.tools.map(openAiTool)), JSON.stringify(expected));
  deepEqual([files!.name, files!.version], ["files", "1"]);
});

Deno.test("every offered toolset is listed once, the default first", () => {
  const table = { files: TOOLSETS.files!, notes: { ...TOOLSETS.files!, name: "notes" } };
  const names = (fallback: string | undefined, ...scenario_toolsets: string[]) =>
    offeredToolsets({ tools: { default: fallback }, scenario_toolsets, table }).map(({ name }) => name);
  deepEqual(names("files", "files"), ["files"]);
  deepEqual(names("notes", "files", "notes"), ["notes", "files"]);
  deepEqual(names(undefined, "files"), ["files"]);
  throws(() => names("python"), { code: "not_built", message: /no toolset "python" .* has files, notes$/ });
});

Deno.test("the toolsets are in the table under their names", () => {
  for (const [name, toolset] of Object.entries(TOOLSETS)) equal(toolset.name, name);
});
