import { equal } from "node:assert/strict";
import { matchesSchema } from "./arguments.ts";
import { FILES_TOOLSET } from "./builtin/files.ts";
import { checkCall } from "./toolset.ts";

Deno.test("a call is checked against its tool", () => {
  const { tools } = FILES_TOOLSET;
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
