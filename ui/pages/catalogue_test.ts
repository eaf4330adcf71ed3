import assert from "node:assert/strict";
import { parse } from "smol-toml";
import { NAMED_IN } from "./catalogue.ts";

Deno.test("the lines that name an entry say its id in TOML, whatever characters it has", () => {
  const read = (toml: string) => JSON.parse(JSON.stringify(parse(toml)));
  const id = 'a "b" \\ \n\u0001\x7f é';
  assert.deepEqual(read(NAMED_IN.environments(id)), { agent: { environment: { id } } });
  assert.deepEqual(read(NAMED_IN.rewards(id)), { agent: { reward: id } });
  assert.deepEqual(read(NAMED_IN.judges(id)), { agent: { judge: { id } } });
  assert.deepEqual(read(NAMED_IN.mcp_servers(id)), { agent: { mcp_servers: [{ id }] } });
  assert.deepEqual(read(NAMED_IN.adapters("/a.gguf")), { lora: { init_adapter: "/a.gguf" } });
  assert.deepEqual(read(NAMED_IN.models("/m/a b.gguf")), { model: { path: "/m/a b.gguf" } });
});
