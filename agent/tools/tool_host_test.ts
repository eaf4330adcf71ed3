import assert from "node:assert/strict";
import { combineTools, MAX_TOOL_NAME, routeCalls, shortName } from "./tool_host.ts";
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

Deno.test("a tool with a prefix gets it where another origin has its name, and only there", async () => {
  const factory = fakeToolHost({ call: ({ name }) => ({ result: name, reward: null, done: false }) });
  const host = await factory.open(signal);
  const origins = [
    { name: "own", tools: ["read", "write"].map(fakeTool), host },
    { name: "a", prefix: "a", tools: ["find", "read", "say"].map(fakeTool), host },
    { name: "b", prefix: "b", tools: ["find"].map(fakeTool), host },
  ];
  const names = combineTools(origins).map(({ name }) => name);
  assert.deepEqual(names, ["read", "write", "a__find", "a__read", "say", "b__find"]);
  const call = routeCalls(origins);
  const heard = names.map(async (name) => (await call({ id: "1", name, arguments: {} }, signal)).result);
  assert.deepEqual(await Promise.all(heard), ["read", "write", "find", "read", "say", "find"]);
  const taken = [...origins, { name: "c", tools: [fakeTool("a__read")] }];
  assert.throws(() => combineTools(taken), /"a__read" is not unique: a and c both have it/);
});

Deno.test("a name that a model cannot call becomes one, and long ones stay different", () => {
  assert.equal(shortName("get/a b.c-1"), "get_a_b_c-1");
  const long = ["x", "y"].map((end) => shortName("n".repeat(MAX_TOOL_NAME) + end));
  assert.ok(long.every((name) => name.length === MAX_TOOL_NAME) && long[0] !== long[1]);
  assert.equal(shortName("n".repeat(MAX_TOOL_NAME)), "n".repeat(MAX_TOOL_NAME));
});
