import assert from "node:assert/strict";
import { combineTools, routeCalls } from "./tool_host.ts";
import { fakeTool, fakeToolHost } from "./tool_host_fake.ts";

const { signal } = new AbortController();

Deno.test("each call goes to the host that has its tool", async () => {
  const hosted = (result: string, ...names: string[]) => {
    const answer = { reward: null, done: false };
    const factory = fakeToolHost({ call: ({ name }) => ({ result: `${result} ${name}`, ...answer }) });
    return factory.open(signal).then((host) => ({ tools: names.map(fakeTool), host }));
  };
  const call = routeCalls([await hosted("a", "read", "write"), await hosted("b", "search")]);
  const results = ["search", "write"].map((name) => call({ id: "1", name, arguments: {} }, signal));
  assert.deepEqual((await Promise.all(results)).map(({ result }) => result), ["b search", "a write"]);
});

Deno.test("tools keep the order of their origins, and two of one name are refused with both origins", () => {
  const files = { name: 'the toolset "files"', tools: ["read", "write"].map(fakeTool) };
  const web = { name: 'the MCP server "web"', tools: ["search"].map(fakeTool) };
  assert.deepEqual(combineTools([files, web]).map(({ name }) => name), ["read", "write", "search"]);
  const clash = { ...web, tools: ["search", "write"].map(fakeTool) };
  assert.throws(() => combineTools([files, clash]), {
    code: "config_invalid",
    message:
      'Cannot offer the tools: the name "write" is not unique: the toolset "files" and the MCP server "web" ' +
      "both have it; rename one, or do not offer it",
  });
  const twice = { ...web, tools: ["search", "search"].map(fakeTool) };
  assert.throws(() => combineTools([twice]), /"search" is not unique: the MCP server "web" has it twice;/);
});
