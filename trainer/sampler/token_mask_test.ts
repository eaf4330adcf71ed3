import { deepEqual, equal, throws } from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import { createTokenMask } from "./token_mask.ts";

const mask = (tokens: number[], vocabulary: number) =>
  createTokenMask({ type: "allowed_tokens", tokens }, vocabulary);

Deno.test("bit id mod 32 of word id / 32 allows an id", () => {
  const allowed = mask([0, 31, 32, 69, 31], 70);
  deepEqual([...allowed.bits()], [0x80000001, 1, 1 << 5]);
  equal(allowed.is_static, true);
  allowed.advance(31);
  deepEqual([...allowed.bits()], [0x80000001, 1, 1 << 5], "whatever is drawn");
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
    new ServiceError("config_invalid", "Cannot draw from an empty set of allowed tokens"),
  );
});
