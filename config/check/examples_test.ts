import assert from "node:assert/strict";
import { loadServerConfig } from "../server/load.ts";
import { loadRunConfig } from "./load.ts";

const EXAMPLES = new URL("../../examples/", import.meta.url);

Deno.test("every committed example loads, and its files exist", async () => {
  const names = [...Deno.readDirSync(EXAMPLES)].map(({ name }) => name).filter((name) =>
    name.endsWith(".toml") && name !== "server.toml"
  );
  assert.ok(names.length >= 2);
  for (const name of names) {
    const { config } = await loadRunConfig(new URL(name, EXAMPLES).pathname);
    assert.ok(config.model.path.startsWith("/"), name);
  }
});

Deno.test("the example of a server loads, and finds the examples' model", async () => {
  const { path_roots, environments } = await loadServerConfig(new URL("server.toml", EXAMPLES).pathname);
  assert.ok(Deno.statSync(`${path_roots[0]}/tiny-agent-f16.gguf`).isFile);
  assert.deepEqual(environments.map(({ id }) => id), ["workspace"]);
});
