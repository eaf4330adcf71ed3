import assert from "node:assert/strict";
import { loadRunConfig } from "./load.ts";

const EXAMPLES = new URL("../../examples/", import.meta.url);

Deno.test("every committed example loads, and its files exist", async () => {
  const names = [...Deno.readDirSync(EXAMPLES)].map(({ name }) => name).filter((name) =>
    name.endsWith(".toml")
  );
  assert.ok(names.length >= 2);
  for (const name of names) {
    const { config } = await loadRunConfig(new URL(name, EXAMPLES).pathname);
    assert.ok(config.model.path.startsWith("/"), name);
  }
});
