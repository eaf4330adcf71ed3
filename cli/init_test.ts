import assert from "node:assert/strict";
import { BUILT_ALGORITHMS } from "../config/check/built.ts";
import { describeKeys } from "../config/describe.ts";
import { parseRunConfig } from "../config/check/load.ts";
import { ENVIRONMENT_KINDS } from "../config/environments.ts";
import { isNotBuilt } from "../config/check/not_built.ts";
import { resolveLoaded } from "../config/check/resolve.ts";
import { starterConfig } from "./init.ts";
import { runSvc } from "./context_fake.ts";

const ALGORITHMS = BUILT_ALGORITHMS;

/** The lines of commented keys, and whether each is derived by a rule. */
function commentedKeys(text: string): { line: number; is_example: boolean }[] {
  const lines = text.split("\n");
  return lines.flatMap((line, i) =>
    /^# \w+ = /.test(line) ? [{ line: i, is_example: lines[i - 1]!.includes(" Left out: ") }] : []
  );
}

/** The text with some of its lines uncommented. */
function uncommented(text: string, lines: readonly number[]): string {
  return text.split("\n").map((line, i) => lines.includes(i) ? line.slice("# ".length) : line).join("\n");
}

/** The facts for derived values; the adapter is the one in `lora.init_adapter`. */
const FACTS = {
  path: "run.toml",
  context_length: 32_768,
  vocabulary: 151_936,
  init_adapter: { rank: 8, alpha: 16, targets: "all" as const },
};

function load(text: string) {
  const loaded = parseRunConfig(text, { path: "run.toml" });
  resolveLoaded(loaded, FACTS);
  return loaded.config;
}

Deno.test("a starter loads, and gives the same configuration with all commented defaults uncommented", () => {
  for (const algorithm of ALGORITHMS) {
    const text = starterConfig(algorithm), config = load(text);
    assert.equal(config.run.algorithm, algorithm);
    const defaults = commentedKeys(text).filter(({ is_example }) => !is_example);
    assert.ok(defaults.length > 20);
    assert.deepEqual(load(uncommented(text, defaults.map(({ line }) => line))), config);
  }
});

Deno.test("every commented line is valid without its comment sign, alone and with all others", () => {
  for (const algorithm of ALGORITHMS) {
    const text = starterConfig(algorithm), keys = commentedKeys(text);
    const config = load(text), lines = text.split("\n");
    for (const { line, is_example } of keys) {
      const changed = load(uncommented(text, [line]));
      if (is_example) assert.notDeepEqual(changed, config, lines[line]);
    }
    load(uncommented(text, keys.map(({ line }) => line)));
    // All other comments are prose.
    for (const [i, line] of lines.entries()) {
      if (line.startsWith("# ") && !keys.some((key) => key.line === i)) {
        assert.match(line, /^# [^=]*(".*".*)?$/);
      }
    }
  }
});

Deno.test("the starters mention every key that this build has, except in tables that their reader must name", () => {
  const text = ALGORITHMS.map(starterConfig).join("\n");
  for (const { key, section } of describeKeys()) {
    // A list of tables has no entry to begin with, and a table that its reader must name has no name.
    if (isNotBuilt(key) || section.includes("[]") || section.includes("<")) continue;
    // Keys that have no meaning beside the starter's type of environment.
    const other_types = Object.entries(ENVIRONMENT_KINDS).filter(([type]) => type !== "local");
    const of_others = other_types.flatMap(([, { keys }]) => keys.map((name) => `agent.environment.${name}`));
    if (of_others.some((other) => key === other || key.startsWith(`${other}.`))) continue;
    // Only requests name entries of a catalogue.
    if (key === "agent.judge.id") continue;
    const name = key.slice(section.length + 1);
    const table = section.split(".").at(-1)!, inline = new RegExp(`^# ${table} = \\{.*\\b${name} = `, "m");
    // A table that is one form of a key stands in one line.
    if (inline.test(text)) continue;
    assert.match(text, new RegExp(`^(# )?${name} = `, "m"), key);
    assert.ok(text.includes(`[${section}]`), section);
  }
});

Deno.test("an existing file is not replaced", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const path = `${folder}/run.toml`;
    assert.equal((await runSvc("init", path, "--algorithm", "sft")).code, 0);
    assert.equal(await Deno.readTextFile(path), starterConfig("sft"));
    const { code, err } = await runSvc("init", path);
    assert.equal(code, 2);
    assert.match(err, /it exists/);
    assert.equal(await Deno.readTextFile(path), starterConfig("sft"));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
