import assert from "node:assert/strict";
import { configKeysOf } from "../../client/config_schema.ts";
import { proposalsAt } from "./completion.ts";

const KNOWN = configKeysOf({
  type: "object",
  properties: {
    model: {
      description: "The base model.",
      properties: {
        path: { type: "string", description: "A file." },
        kv: { type: "string", enum: ["auto", "f16"], default: "auto", description: "The cache." },
      },
    },
    agent: {
      properties: {
        end_on_no_tool_call: { type: "boolean", default: true },
        environment: { description: "Where tools run.", properties: { id: { type: "string" } } },
        mcp_servers: { type: "array", items: { properties: { id: { type: "string" } } } },
        template_variables: { type: "object", properties: {} },
      },
    },
  },
});
const OFFERED = { "model.path": [{ value: "/m.gguf", about: "tiny" }] };

const labelsAt = (...lines: string[]) => {
  const found = proposalsAt(lines, KNOWN, OFFERED);
  return found && [found.from, found.options.map(({ label }) => label)];
};

Deno.test("a schema has sections, also of tables in lists, and keys with their defaults and values", () => {
  assert.deepEqual([...KNOWN.sections.keys()], [
    ...["model", "agent", "agent.environment", "agent.mcp_servers", "agent.template_variables"],
  ]);
  assert.deepEqual(KNOWN.keys.get("model.kv"), {
    ...{
      key: "model.kv",
      description: "The cache.",
      type: "string",
      default: "auto",
      values: ["auto", "f16"],
    },
  });
  assert.ok(KNOWN.keys.has("agent.mcp_servers.id"));
});

Deno.test("sections are proposed after a bracket, and the keys of a section in it", () => {
  const sections = [...KNOWN.sections.keys()];
  assert.deepEqual(labelsAt("[model]", "  [ag"), [3, sections]);
  assert.deepEqual(labelsAt("[[agent."), [2, sections]);
  assert.deepEqual(labelsAt("[model]", "path = 1", "k"), [0, ["path", "kv"]]);
  assert.deepEqual(labelsAt("[model]", "[[ agent.mcp_servers ]] # one", ""), [0, ["id"]]);
  assert.deepEqual(labelsAt("n"), [0, ["name", ...sections]]);
});

Deno.test("values are proposed in quotes: those of the key, and those that the server offers", () => {
  assert.deepEqual(labelsAt("[model]", 'kv = "a'), [5, ["auto", "f16"]]);
  assert.deepEqual(labelsAt("[agent]", "end_on_no_tool_call ="), [21, ["true", "false"]]);
  const found = proposalsAt(["[model]", "path = "], KNOWN, OFFERED);
  assert.deepEqual(found?.options, [{ label: "/m.gguf", apply: '"/m.gguf"', detail: "tiny" }]);
  assert.equal(labelsAt("[model]", "path = 1 # "), null);
  assert.equal(labelsAt("[agent.environment]", "id = "), null);
});
