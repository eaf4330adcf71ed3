// An MCP server for examples/tiny_agent_mcp.toml, without any package: messages are lines of JSON on the standard streams.
// It lends the texts of a library. Anything for people belongs on standard error.

import { createInterface } from "node:readline";

const LIBRARY = {
  "part2.cfg": "daisy",
  "report.dat": "modo tunnel",
  "first.cfg": "spruce melon",
  "data.cfg": "leaf",
  "plan.md": "lion",
  "notes.txt": "gufa bucket",
  "result.log": "durames",
  "map.cfg": "gepe fountain",
  "backup.dat": "lalot tunnel",
  "new.log": "miza",
  "key.cfg": "veto tiger fountain",
  "copy.dat": "dragon",
  "output.txt": "camel",
  "memo.md": "fiddle goblet",
  "output.dat": "niberat lerat",
  "text.log": "sail lutufo",
  "box.txt": "gravel nest",
  "second.txt": "nika kettle fox",
  "output.md": "zatil shadow",
  "notes.cfg": "garlic soli",
  "part2.log": "hill rigopo",
  "todo.cfg": "hammer gusomar",
  "final.log": "potato moki cable",
  "first.dat": "fumur dibilon",
};

// The name and the texts of a tool belong to what a model learns: this model knows a `read_file` with these.
const READ_FILE = {
  name: "read_file",
  description: "Read a file.",
  inputSchema: { type: "object", properties: { path: { type: "string" } }, required: ["path"] },
};

/** The result of a call; one with `isError` is shown to the model as `error: …`. */
function read({ path }) {
  const known = Object.hasOwn(LIBRARY, path);
  return { content: [{ type: "text", text: known ? LIBRARY[path] : "no such file" }], isError: !known };
}

const ANSWERS = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: "library", version: "1" },
  }),
  "tools/list": () => ({ tools: [READ_FILE] }),
  "tools/call": (params) => read(params.arguments),
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
