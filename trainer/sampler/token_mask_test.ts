import { deepEqual, equal, throws } from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import { Grammars } from "../grammar/grammars.ts";
import { createTokenMask } from "./token_mask.ts";

const mask = (tokens: number[], vocabulary: number) =>
  createTokenMask({ type: "allowed_tokens", tokens }, { vocabulary, stop_tokens: [], grammars: null });

Deno.test("bit id mod 32 of word id / 32 allows an id", () => {
  const allowed = mask([0, 31, 32, 69, 31], 70);
  deepEqual([...allowed.bits()], [0x80000001, 1, 1 << 5]);
  equal(allowed.is_static, true);
  allowed.advance(31);
  deepEqual([...allowed.bits()], [0x80000001, 1, 1 << 5], "whatever is sampled");
});

Deno.test("ids outside the vocabulary and an empty set are refused", () => {
  for (const token of [-1, 70, 1.5, NaN]) {
    throws(
      () => mask([3, token], 70),
      new ServiceError("config_invalid", `Cannot allow token ${token}: the vocabulary has 70`),
    );
  }
  throws(
    () => mask([], 70),
    new ServiceError("config_invalid", "Cannot sample from an empty set of allowed tokens"),
  );
});

/** A vocabulary of these texts; the last is a control token. */
function grammarsOf(texts: string[]): Grammars {
  const encoder = new TextEncoder();
  return new Grammars(() => ({
    size: texts.length,
    bytesOf: (id) => encoder.encode(texts[id]),
    isControl: (id) => id === texts.length - 1,
  }));
}

const TEXTS = ["1", "2", "12", "true", "t", "}", "", "<end>"], END = 7;
const schemaMask = (schema: unknown, stop_tokens: number[], texts = TEXTS) =>
  createTokenMask({ type: "json_schema", schema: JSON.stringify(schema) }, {
    ...{ vocabulary: 40, stop_tokens, grammars: grammarsOf(texts) },
  });
const idsOf = (bits: Uint32Array) =>
  Array.from({ length: 40 }, (_, id) => id).filter((id) => bits[id >>> 5]! >>> (id & 31) & 1);

Deno.test("stop tokens are allowed where the text may end, and only there", () => {
  const text = schemaMask({ enum: [1, 12, true] }, [END]);
  equal(text.is_static, false);
  deepEqual(idsOf(text.bits()), [0, 2, 3, 4]);
  text.advance(0);
  deepEqual(idsOf(text.bits()), [1, END]);
  text.advance(1);
  deepEqual(idsOf(text.bits()), [END]);
  text.advance(END);
  deepEqual(idsOf(schemaMask({ enum: [1, 12, true] }, [0, END]).bits()), [2, 3, 4], "whatever their text is");
});

Deno.test("a schema without stop tokens, without a tokenizer, or that no token can go on with is refused", () => {
  throws(() => schemaMask({}, []), /Cannot sample under a JSON schema without a stop token/);
  throws(() => schemaMask({}, [-1, 40, 0.5]), /without a stop token/);
  const context = { vocabulary: 40, stop_tokens: [END], grammars: null };
  throws(
    () => createTokenMask({ type: "json_schema", schema: "{}" }, context),
    /the engine has no tokenizer/,
  );
  throws(() => schemaMask({ const: 3 }, [END]).bits(), /no token of the vocabulary has the characters/);
});
