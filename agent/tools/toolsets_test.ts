import { deepEqual, equal, throws } from "node:assert/strict";
import { BUILTIN_TOOLS } from "../../config/sections/environment.ts";
import { openAiTool } from "../../core/chat.ts";
import { configuredToolsets, offeredToolsets, TOOLSETS } from "./toolsets.ts";

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
  throws(() => names("python"), {
    code: "config_invalid",
    message: /no toolset "python"; there are files, notes$/,
  });
});

Deno.test("the toolsets are in the table under their names, with the tools that a configuration may name", () => {
  for (const [name, toolset] of Object.entries(TOOLSETS)) equal(toolset.name, name);
  const tools = Object.entries(TOOLSETS).map((
    [name, toolset],
  ) => [name, toolset.tools.map((tool) => tool.name)]);
  deepEqual(Object.fromEntries(tools), BUILTIN_TOOLS);
});

Deno.test("a toolset of a configuration has the built-in tools that it names, and its version", () => {
  const definition = (toolset: string, name: string) =>
    TOOLSETS[toolset]!.tools.find((tool) => tool.name === name);
  const tools = ["read_file", "files.list_dir", "typescript", "typescript.run_tests"];
  const { mine } = configuredToolsets({ mine: { version: "2026-01", tools } });
  deepEqual(mine!.tools, [
    definition("python", "read_file"),
    definition("files", "list_dir"),
    definition("typescript", "typescript"),
    definition("typescript", "run_tests"),
  ]);
  equal(mine!.version, "2026-01");
});
