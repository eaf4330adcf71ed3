import assert from "node:assert/strict";
import { z } from "zod";
import { describeKeys, schemaAt, unwrap } from "../describe.ts";
import { command, httpUrl, variableName } from "../sections/fields.ts";
import { CATALOGUE_TABLES, type CatalogueTable } from "./catalogue_tables.ts";
import { isOperatorsKey, operatorsKeys, pathKeys, requestJsonSchema, withoutPaths } from "./request_keys.ts";

const TREE = {
  model: { path: "/m.gguf" },
  output: { path: "/out" },
  run: { directory: "x" },
  agent: {
    scenarios: "ds_1",
    mcp_config: "/mcp.json",
    judge: { type: "ruler", model: "m", cache_path: "/c", rubric: "r" },
    environment: { id: "box", type: "local", allow_unsandboxed: true, limits: { cpus: 1 } },
    mcp_servers: [{ id: "a" }, { command: ["x"], url: "http://x" }],
    scenario_generation: {},
  },
};

const keys = (found: { path: (string | number)[] }[]) => found.map(({ path }) => path.join(".")).sort();

Deno.test("every key of the operator is found, however deep", () => {
  assert.deepEqual(keys(operatorsKeys(TREE)), [
    "agent.environment.allow_unsandboxed",
    "agent.environment.type",
    "agent.judge.cache_path",
    "agent.judge.model",
    "agent.judge.type",
    "agent.mcp_config",
    "agent.mcp_servers.1.command",
    "agent.mcp_servers.1.url",
    "agent.scenario_generation",
  ]);
  assert.deepEqual(operatorsKeys({ agent: { judge: { id: "a", type: "ruler" }, mcp_servers: "x" } }), []);
  assert.deepEqual(keys(operatorsKeys({ agent: { environment: { pool: { reuse: "workspace" } } } })), [
    "agent.environment.pool.reuse",
  ]);
});

/** A key of `describeKeys` as a path. */
const pathOf = (key: string) =>
  key.replaceAll("[]", ".0").replaceAll("<name>", "any").split(".").map((part) => part === "0" ? 0 : part);

/** The sections in which every key is either for requests or for the operator. */
const DIVIDED = /^agent\.(judge|environment|mcp_servers|mcp_config|scenario_generation|collect_api)\b/;

Deno.test("every key of the catalogue's tables is the operator's, unless it is listed for requests", () => {
  const tables: readonly CatalogueTable[] = Object.values(CATALOGUE_TABLES);
  const listed = tables.flatMap(({ field, is_list, keys }) =>
    Object.keys(keys ?? {}).map((key) => `agent.${field}${is_list ? "[]" : ""}.${key}`)
  );
  const divided = describeKeys().map(({ key }) => key).filter((key) => DIVIDED.test(key));
  assert.ok(divided.length > 30);
  for (const key of divided) {
    assert.equal(isOperatorsKey(pathOf(key)), !listed.includes(key), key);
  }
  for (const key of listed) assert.ok(divided.includes(key), `${key} is a key`);
});

Deno.test("every key of the schema for a program, an address or a credential is the operator's", () => {
  const forms = [command(), httpUrl(), variableName()].map((schema) =>
    JSON.stringify(z.toJSONSchema(schema))
  );
  const isSecret = (key: string) => {
    const schema = schemaAt(pathOf(key)), inner = schema && unwrap(schema).schema;
    return inner !== null && forms.includes(JSON.stringify({ ...z.toJSONSchema(inner.clone().meta({})) }));
  };
  const found = describeKeys().map(({ key }) => key).filter(isSecret);
  assert.ok(found.length >= 6, found.join());
  for (const key of found) assert.ok(isOperatorsKey(pathOf(key)), key);
});

Deno.test("the operator's keys are not in the schema of requests", () => {
  const { judge, environment } = requestJsonSchema().properties!.agent!.properties!;
  assert.deepEqual(Object.keys(judge!.properties!).sort(), [
    ...["id", "max_chars", "max_retries", "permute", "rubric", "timeout_secs", "type"],
  ]);
  assert.deepEqual(Object.keys(environment!.properties!.pool!.properties!), ["max_live", "reuse"]);
  assert.equal(environment!.properties!.type, undefined);
});

Deno.test("paths to read and to write are found, but not below a key of the operator", () => {
  assert.deepEqual(keys(pathKeys(TREE, "input")), ["agent.scenarios", "model.path"]);
  assert.deepEqual(keys(pathKeys(TREE, "output")), ["output.path", "run.directory"]);
});

Deno.test("a tree without some paths leaves the original as it is", () => {
  const copy = withoutPaths(TREE, [["agent", "judge"], ["agent", "mcp_servers", 1, "url"], ["no", "such"]]);
  const { judge, mcp_servers } = copy.agent as { judge?: object; mcp_servers: object[] };
  assert.deepEqual([judge, mcp_servers[1]], [undefined, { command: ["x"] }]);
  const emptied = withoutPaths({
    agent: { mcp_servers: [{ command: ["x"] }], judge: { model: "m" } },
    lora: {},
  }, [
    ["agent", "mcp_servers", 0, "command"],
    ["agent", "judge", "model"],
  ]);
  assert.deepEqual(emptied, { lora: {} });
  assert.equal(TREE.agent.judge.model, "m");
});
