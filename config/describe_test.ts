import assert from "node:assert/strict";
import { algorithmKeys, ALGORITHMS, isUnused } from "./algorithms.ts";
import { configJsonSchema, describeConfig, describeKeys } from "./describe.ts";
import { LIMITS, type NumericKey, type Range } from "./sections/limits.ts";

Deno.test("every key has a description, and a default, a rule or is required", () => {
  for (const { key, description, required, rule, ...rest } of describeKeys()) {
    assert.match(description, /^\S.{8,150}\.$/, key);
    const fallbacks = [required, "default" in rest, rule !== undefined].filter(Boolean).length;
    assert.equal(fallbacks, 1, `${key} has ${fallbacks} of duty, default and rule`);
  }
  for (const { section, description } of describeConfig()) assert.match(description, /\.$/, section);
});

Deno.test("types are in words", () => {
  const type = (key: string) => describeKeys().find((found) => found.key === key)?.type;
  assert.equal(type("lora.rank"), "integer, 1 to 1024");
  assert.equal(type("training.lr"), "number, above 0, at most 1");
  assert.equal(type("lora.dropout"), "number, 0 to below 1");
  assert.equal(type("agent.truncation"), '"drop" or "min_reward"');
  assert.equal(type("model.path"), "path");
  assert.equal(type("agent.mcp_servers[].command"), "list of string");
  assert.equal(type("agent.environment.allow_network"), "true or false");
});

Deno.test("rules and descriptions have the numbers and the algorithms that they are about", () => {
  const of = (key: string) => describeKeys().find((found) => found.key === key)!;
  assert.equal(of("training.ctx").rule, "the smaller of 4096 and the model's context length");
  const rates = of("training.lr").rule!.split(", ").map((part) => part.split(" "));
  assert.deepEqual(
    rates.map(([name, rate]) => [name, Number(rate)]),
    ALGORITHMS.map((name) => [name, algorithmKeys(name).learning_rate]),
  );
  assert.equal(
    of("training.loss_chunk_rows").rule?.slice(0, 44),
    "as many as give 2^26 logits, from 64 to 1024",
  );
  assert.equal(of("agent.clip_high").rule, "0.28 at level token, 4e-4 at level sequence");
  assert.equal(of("preference.beta").rule, "2 for simpo, else 0.1");
  const named = (key: string) =>
    ALGORITHMS.filter((name) => RegExp(`\\b${name}\\b`).test(of(key).description));
  for (const key of ["training.updates", "evaluation.samples_per_scenario"]) {
    assert.deepEqual(named(key), ALGORITHMS.filter((name) => !isUnused(name, key)), key);
  }
  const fixed = ALGORITHMS.filter((name) => "lora.dropout" in algorithmKeys(name).fixed);
  assert.deepEqual(named("lora.dropout"), fixed);
});

Deno.test("a rule that is a number is one that the key accepts", () => {
  const numbers = describeKeys().filter(({ rule }) => /^\d+$/.test(rule ?? ""));
  const keys = numbers.map(({ key }) => key);
  assert.ok(keys.includes("agent.judge.max_chars") && keys.includes("agent.environment.limits.memory_mb"));
  for (const { key, rule } of numbers) {
    const { min, max }: Range = LIMITS[key as NumericKey];
    assert.ok(Number(rule) >= min && Number(rule) <= max, key);
  }
});

Deno.test("the JSON Schema is closed and has defaults and rules", () => {
  const schema = configJsonSchema() as {
    $schema: string;
    additionalProperties: boolean;
    required: string[];
    properties: Record<
      string,
      { properties: Record<string, Record<string, unknown>>; additionalProperties: boolean }
    >;
  };
  assert.equal(schema.$schema, "https://json-schema.org/draft/2020-12/schema");
  assert.equal(schema.additionalProperties, false);
  assert.deepEqual(schema.required, ["run", "model"]);
  const { rank } = schema.properties.lora!.properties;
  assert.deepEqual([rank!.type, rank!.minimum, rank!.maximum, rank!.default], ["integer", 1, 1024, 8]);
  const ctx = schema.properties.training!.properties.ctx!;
  assert.match(String(ctx.description), /Left out: the smaller of 4096/);
  assert.deepEqual(["rule", "example"].filter((key) => key in ctx), []);
});
