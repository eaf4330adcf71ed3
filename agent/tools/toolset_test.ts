import { deepEqual, equal } from "node:assert/strict";
import { matchesSchema } from "./arguments.ts";
import { checkCall, listTools, toolsetByName } from "./toolset.ts";

const FIXTURE = new URL("../../fixtures/models/tiny-agent/tools.json", import.meta.url);

Deno.test("the toolset files has the definitions that the tiny agent was trained on, byte for byte", async () => {
  const expected = JSON.parse(await Deno.readTextFile(FIXTURE));
  const listed = listTools({ tools: {}, scenario_toolsets: ["files"] });
  equal(JSON.stringify(listed[0]!.tools), JSON.stringify(expected));
  deepEqual(listed.map(({ tools: _, ...rest }) => rest), [{
    toolset: "files",
    version: "1",
    default: false,
  }]);
});

Deno.test("every offered toolset is listed once, the default first", () => {
  const listed = listTools({ tools: { default: "files" }, scenario_toolsets: ["files"] });
  deepEqual(listed.map(({ toolset, default: fallback }) => [toolset, fallback]), [["files", true]]);
  deepEqual(listTools(undefined), []);
});

Deno.test("a call is checked against its tool", () => {
  const { tools } = toolsetByName("files");
  const check = (name: string, args: unknown) => checkCall(tools, { name, arguments: args });
  equal(check("read_file", { path: "a" }), null);
  equal(check("submit", {}), null);
  equal(check("remove_file", { path: "a" }), "error: unknown tool");
  equal(check("toString", {}), "error: unknown tool");
  for (
    const args of [{}, { path: 1 }, { path: "a", mode: "r" }, [], null, "a", { __proto__: { path: "a" } }]
  ) {
    equal(check("read_file", args), "error: bad arguments");
  }
  equal(check("submit", { now: true }), "error: bad arguments");
  equal(check("write_file", { content: "", path: "" }), null);
});

Deno.test("schemas are checked to any depth", () => {
  const schema = {
    type: "object",
    properties: {
      names: { type: "array", items: { type: "string" } },
      mode: { enum: ["a", "b"] },
      size: { type: ["integer", "null"] },
      free: { type: "object" },
      typed: { type: "object", additionalProperties: { type: "number" } },
    },
  };
  const cases: [unknown, boolean][] = [
    [{ names: ["a", "b"], mode: "a", size: 3, free: { x: 1 }, typed: { y: 2.5 } }, true],
    [{ names: ["a", 1] }, false],
    [{ mode: "c" }, false],
    [{ size: 1.5 }, false],
    [{ size: null }, true],
    [{ typed: { y: "2" } }, false],
    [{ other: 1 }, false],
  ];
  for (const [value, expected] of cases) equal(matchesSchema(schema, value), expected, JSON.stringify(value));
});
