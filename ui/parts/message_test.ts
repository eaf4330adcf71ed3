import assert from "node:assert/strict";
import { argumentsIn } from "./message.tsx";

Deno.test("the arguments of a call are read from its text, where it is an object", () => {
  assert.deepEqual(argumentsIn('{"path": "a.txt"}'), { path: "a.txt" });
  for (const text of ["", "{", "[1]", "null", "3"]) assert.equal(argumentsIn(text), null, text);
});
