import assert from "node:assert/strict";
import { describeConfig, describeKeys } from "./describe.ts";
import { coveringName, effectOf, KEY_EFFECTS } from "./key_effects.ts";

const nameOf = (key: string) => key.replaceAll("[]", "").replaceAll(".<name>", "");

Deno.test("every key of the schema is in the table, by itself or by its section", () => {
  for (const { key } of describeKeys()) {
    assert.notEqual(coveringName(nameOf(key)), null, `${key} has an effect`);
  }
});

Deno.test("every name in the table is a key or a section of the schema", () => {
  const keys = describeKeys().map(({ key }) => nameOf(key));
  const sections = describeConfig().map(({ section }) => nameOf(section));
  for (const name of Object.keys(KEY_EFFECTS)) {
    assert.ok(keys.includes(name) || sections.some((section) => `${section}.`.startsWith(`${name}.`)), name);
  }
});

Deno.test("a section whose keys have different effects has no line of its own in the table", () => {
  for (const section of ["run", "training", "agent", "evaluation"]) {
    assert.equal(coveringName(`${section}.any`), null, section);
  }
});

Deno.test("the longest name counts, and a key of another build may train", () => {
  assert.equal(effectOf("agent.environment.pool.max_live").changes, "never");
  assert.equal(effectOf("agent.environment.pool.reuse").changes, "trains");
  assert.equal(effectOf("agent.environments").changes, "trains");
  assert.equal(effectOf("output.peft_dir").changes, "never");
  assert.equal(effectOf("__proto__").changes, "trains");
});
