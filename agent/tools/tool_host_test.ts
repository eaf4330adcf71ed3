import assert from "node:assert/strict";
import type { ToolFunction } from "../../core/chat.ts";
import { composeTools, type ToolHost } from "./tool_host.ts";

const tool = (name: string): ToolFunction => ({ name, description: "", parameters: {} });
const host = (result: string): ToolHost => ({
  call: ({ name }) => Promise.resolve({ result: `${result} ${name}`, reward: null, done: false }),
});

Deno.test("each call goes to the host that lists its tool, and no name has two hosts", async () => {
  const a = { tools: [tool("read"), tool("write")], host: host("a") };
  const b = { tools: [tool("search")], host: host("b") };
  const tools = composeTools([a, b]), { signal } = new AbortController();
  const results = ["search", "write"].map((name) => tools.call({ id: "1", name, arguments: {} }, signal));
  assert.deepEqual((await Promise.all(results)).map(({ result }) => result), ["b search", "a write"]);
  assert.throws(() => composeTools([a, { ...b, tools: [tool("read")] }]), /the tool read has one host/);
});
