import { deepEqual, equal, ok } from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import { Rng, rngKey } from "../../core/random.ts";
import { maskBench, validatorOf } from "../../tests/schema_validator.ts";
import { fixtureTokenizer } from "../../tests/vocabulary.ts";
import { compileSchema, type Grammar } from "./grammar.ts";
import { generates, walk, walkedVocabulary } from "./schema_walk_testing.ts";

/** Schemas of the suite that are refused, with the keyword that cannot be enforced. */
const REFUSED: Readonly<Record<string, string>> = {
  "Github_easy---o65510": "oneOf",
  "Github_medium---o9363": "format",
  "Github_medium---o58661": "oneOf",
  "Github_hard---o58458": "format",
  "Github_hard---o84134": "format",
  "Github_hard---o21076": "null",
  "Kubernetes---kb_1149_Normalized": "format",
  "JsonSchemaStore---fossa-deps.schema": "oneOf",
  "JsonSchemaStore---grunt-task": "uniqueItems",
  "JsonSchemaStore---drupal-permissions": "uniqueItems",
  "JsonSchemaStore---red_cog.schema": "uniqueItems",
  "JsonSchemaStore---drupal-breakpoints": "uniqueItems",
};
/** Valid instances that are not generated: their keys have another order, or are undeclared. */
const NOT_GENERATED: Readonly<Record<string, number>> = {
  "Github_medium---o41351": 1,
  "Github_medium---o60823": 1,
  "Github_medium---o66186": 2,
  "Github_medium---o30410": 1,
  "Github_hard---o30141": 1,
  "Github_hard---o78043": 2,
  "Github_hard---o41196": 2,
  "Glaiveai2K---calculate_area_d26e2d5f": 1,
  "Kubernetes---kb_1016_Normalized": 1,
  "Kubernetes---kb_216_Normalized": 1,
  "JsonSchemaStore---bounded-context": 2,
  "JsonSchemaStore---foxx-manifest": 1,
  "JsonSchemaStore---vim-addon-info": 1,
  "Snowplow---sp_163_Normalized": 1,
};

for (const name of ["ggml-vocab-gpt-2.gguf", "ggml-vocab-llama-spm.gguf", "vocab-qwen2.gguf"]) {
  Deno.test(`random texts under the schemas of a public suite parse and satisfy them: ${name}`, async () => {
    const vocabulary = walkedVocabulary(await fixtureTokenizer(`tokenizers/${name}`)),
      suite = await maskBench();
    const refused: Record<string, string> = {}, not_generated: Record<string, number> = {};
    let compiled = 0;
    for (const each of suite) {
      const validate = validatorOf(each.schema);
      if (!validate) continue;
      let grammar: Grammar;
      try {
        grammar = compileSchema(JSON.stringify(each.schema), vocabulary.table.arena);
      } catch (error) {
        ok(error instanceof ServiceError && error.code === "config_invalid", each.name);
        refused[each.name] = String(error.details.keyword);
        continue;
      }
      compiled++;
      const text = walk(vocabulary, grammar, new Rng(rngKey(1, each.name)));
      ok(validate(JSON.parse(text)), `${each.name}: ${JSON.stringify(validate.errors)}: ${text}`);
      for (const value of each.valid.filter((value) => validate(value))) {
        if (!generates(vocabulary, grammar, value)) {
          not_generated[each.name] = (not_generated[each.name] ?? 0) + 1;
        }
      }
      for (const value of each.invalid.filter((value) => !validate(value))) {
        equal(generates(vocabulary, grammar, value), false, `${each.name}: ${JSON.stringify(value)}`);
      }
    }
    deepEqual(refused, REFUSED);
    deepEqual(not_generated, NOT_GENERATED);
    ok(compiled >= 200, `${compiled} schemas`);
  });
}
