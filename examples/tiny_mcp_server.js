// An MCP server for examples/tiny_agent_mcp.toml, without any package: messages are lines of JSON on the standard streams.
// Anything for people belongs on standard error.

import { createInterface } from "node:readline";

const DOUBLE = {
  name: "double",
  description: "Write a word twice.",
  inputSchema: { type: "object", properties: { word: { type: "string" } }, required: ["word"] },
};

const ANSWERS = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: "tiny", version: "1" },
  }),
  "tools/list": () => ({ tools: [DOUBLE] }),
  "tools/call": ({ arguments: { word } }) => ({ content: [{ type: "text", text: `${word} ${word}` }] }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) continue;
  const answer = ANSWERS[method];
  const outcome = answer
    ? { result: answer(params ?? {}) }
    : { error: { code: -32601, message: `there is no method ${method}` } };
  console.log(JSON.stringify({ jsonrpc: "2.0", id, ...outcome }));
}
