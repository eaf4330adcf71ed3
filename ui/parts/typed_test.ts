import assert from "node:assert/strict";
import { typedValues, valueOf } from "./typed.ts";

Deno.test("a text that is no value is sent as it is, for the server to say what is wrong with it", () => {
  assert.deepEqual([valueOf("1e", "number"), valueOf("12", "string"), valueOf("true", "boolean")], [
    ...["1e", "12", true],
  ]);
});

Deno.test("empty fields are left out, and numbers are read", () => {
  assert.deepEqual(typedValues({ updates: " 12 ", lr: "1e-4", limit: " ", tokens: "1o" }), {
    ...{ updates: 12, lr: 1e-4, tokens: "1o" },
  });
});
