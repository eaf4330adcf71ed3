import assert from "node:assert/strict";
import { BUILT_ARCHITECTURES, BUILT_TENSOR_TYPES } from "../config/built.ts";
import { DECODED_TYPES } from "../trainer/formats/ggml_types.ts";
import { ARCHITECTURES } from "../trainer/model/model_shape.ts";

Deno.test("what the server tells of models is what the trainer loads", () => {
  assert.deepEqual(BUILT_ARCHITECTURES, ARCHITECTURES);
  assert.deepEqual(BUILT_TENSOR_TYPES, DECODED_TYPES);
});
