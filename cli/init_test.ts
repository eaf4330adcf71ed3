import assert from "node:assert/strict";
import { describeKeys } from "../config/describe.ts";
import { parseRunConfig } from "../config/load.ts";
import { isNotBuilt } from "../config/not_built.ts";
import { starterConfig } from "./init.ts";
import { runCommand } from "./testing.ts";

const ALGORITHMS = ["agent_grpo", "sft"] as const;

Deno.test("a starter loads, and says the same with every commented default in force", () => {
  for (const algorithm of ALGORITHMS) {
    const text = starterConfig(algorithm);
    const { config } = parseRunConfig(text, { path: "run.toml" });
    assert.equal(config.run.algorithm, algorithm);
    const all = text.replace(/^# (\w+ = |\[)/gm, "$1");
    assert.notEqual(all, text);
    assert.deepEqual(parseRunConfig(all, { path: "run.toml" }).config, config);
  }
});

Deno.test("the starters mention every key that this build has", () => {
  const text = ALGORITHMS.map(starterConfig).join("\n");
  for (const { key, section } of describeKeys()) {
    if (isNotBuilt(key)) continue;
    const name = key.slice(section.length + 1);
    assert.match(text, new RegExp(`^(# )?${name}( = |: )`, "m"), key);
    assert.ok(text.includes(`[${section}]`), section);
  }
});

Deno.test("an existing file stays", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const path = `${folder}/run.toml`;
    assert.equal((await runCommand("init", path, "--algorithm", "sft")).code, 0);
    assert.equal(await Deno.readTextFile(path), starterConfig("sft"));
    const { code, err } = await runCommand("init", path);
    assert.equal(code, 2);
    assert.match(err, /it exists/);
    assert.equal(await Deno.readTextFile(path), starterConfig("sft"));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
