/** The checks of the engine's contract for generations under a JSON schema. */

import { deepEqual, equal, match, ok, rejects } from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import { close, type ContractEngine, generate, type Generated, open } from "./engine_testing.ts";

/** The checks by name. */
export const SCHEMA_CHECKS: Record<string, (engine: ContractEngine) => Promise<void>> = {
  "a text under a JSON schema parses, satisfies it and ends with a stop token": checkTexts,
  "sequences under schemas and without sample what they would alone": checkMixed,
  "a text under a JSON schema can be cut off, continued by a new one and cancelled": checkCuts,
  "a schema that cannot be enforced is refused with its place": checkSchemaRefusals,
};

const SCHEMA = JSON.stringify({
  type: "object",
  properties: {
    name: { enum: ["ab", "cd"] },
    count: { type: "integer", minimum: -5, maximum: 20 },
    flags: { type: "array", items: { type: "boolean" }, maxItems: 3 },
    note: { type: "string", maxLength: 4 },
  },
  required: ["name", "count"],
  additionalProperties: false,
});

const mask = (schema: unknown) => ({
  type: "json_schema" as const,
  schema: typeof schema === "string" ? schema : JSON.stringify(schema),
});

/** The text of sampled tokens, without the stop token. */
function textOf(engine: ContractEngine, { tokens }: Generated): string {
  const bytes = tokens.filter((id) => id !== engine.end).flatMap((id) => [...engine.tokens.bytesOf(id)]);
  return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(bytes));
}

function assertValid(text: string): void {
  const { name, count, flags = [], note = "", ...others } = JSON.parse(text);
  deepEqual(others, {}, text);
  ok(["ab", "cd"].includes(name), text);
  ok(Number.isInteger(count) && count >= -5 && count <= 20, text);
  ok(Array.isArray(flags) && flags.length <= 3 && flags.every((flag) => typeof flag === "boolean"), text);
  ok(typeof note === "string" && [...note].length <= 4, text);
}

async function checkTexts(engine: ContractEngine): Promise<void> {
  const parent = await open(engine, [1, 2, 3]), texts = new Set<string>();
  const members = await Promise.all(Array.from({ length: 6 }, () => open(engine, [], { parent })));
  const generated = await Promise.all(members.map((sequence, i) =>
    generate(engine, {
      ...{ sequence, max_tokens: 200, stop_tokens: [engine.end] },
      sampling: { temperature: i === 0 ? 0 : 1, rng_key: [i, 9], mask: mask(SCHEMA) },
    })
  ));
  for (const each of generated) {
    equal(each.stop, "stop_token");
    equal(each.tokens.at(-1), engine.end);
    ok(each.logprobs.every((logprob) => logprob <= 1e-6 && Number.isFinite(logprob)));
    const text = textOf(engine, each);
    assertValid(text);
    texts.add(text);
  }
  ok(texts.size > 1, "members differ");
  await close(engine, parent, ...members);
}

async function checkMixed(engine: ContractEngine): Promise<void> {
  const settings = [
    { sampling: { temperature: 1, rng_key: [3, 3] as const, mask: mask(SCHEMA) }, stop_tokens: [engine.end] },
    { sampling: { temperature: 1, rng_key: [4, 4] as const } },
    { sampling: { temperature: 1, rng_key: [5, 5] as const, mask: mask({ enum: [true, false, null] }) } },
  ].map((each) => ({ max_tokens: 12, stop_tokens: [engine.end], ...each }));
  const alone: Generated[] = [];
  for (const each of settings) {
    const sequence = await open(engine, [7, 8]);
    alone.push(await generate(engine, { sequence, ...each }));
    await close(engine, sequence);
  }
  const sequences = await Promise.all(settings.map(() => open(engine, [7, 8])));
  const together = await Promise.all(
    settings.map((each, i) => generate(engine, { sequence: sequences[i]!, ...each })),
  );
  deepEqual(together, alone);
  match(textOf(engine, together[2]!), /^ ?(true|false|null)$/);
  await close(engine, ...sequences);
}

async function checkCuts(engine: ContractEngine): Promise<void> {
  const { client, end } = engine, sequence = await open(engine, [4]);
  const endless = mask({ type: "array", items: { enum: [10] }, minItems: 100 });
  const cut = await generate(engine, {
    sequence,
    max_tokens: 7,
    stop_tokens: [end],
    sampling: { mask: endless },
  });
  equal(cut.stop, "max_tokens");
  match(textOf(engine, cut), /^ ?\[1[0-9, ]*$/);
  const next = await generate(engine, {
    ...{ sequence, max_tokens: 40, stop_tokens: [end], sampling: { mask: mask({ const: [1, "a"] }) } },
  });
  deepEqual(JSON.parse(textOf(engine, next)), [1, "a"], "a new generation begins a new text");
  const generating = generate(engine, {
    sequence,
    max_tokens: 100,
    stop_tokens: [end],
    sampling: { mask: endless },
  });
  await client.call("sequence_cancel", { sequence });
  equal((await generating).stop, "cancelled");
  await close(engine, sequence);
}

async function checkSchemaRefusals(engine: ContractEngine): Promise<void> {
  const sequence = await open(engine, [1]), stop_tokens = [engine.end];
  const refused = async (schema: unknown, pattern: RegExp, pointer?: string) => {
    const generating = generate(engine, {
      sequence,
      max_tokens: 5,
      stop_tokens,
      sampling: { mask: mask(schema) },
    });
    await rejects(generating, (error) => {
      ok(error instanceof ServiceError && error.code === "config_invalid");
      match(error.message, pattern);
      equal(error.details.pointer, pointer);
      return true;
    });
  };
  await refused("{", /it is not JSON/, "");
  await refused(
    { properties: { a: { contains: {} } } },
    /at \/properties\/a\/contains, /,
    "/properties/a/contains",
  );
  stop_tokens.length = 0;
  await refused({}, /without a stop token/);
  equal((await generate(engine, { sequence, max_tokens: 2 })).tokens.length, 2, "the engine goes on");
  await close(engine, sequence);
}
