import assert from "node:assert/strict";
import { z } from "zod";
import { integerParameter, readQuery } from "./query.ts";

const schema = z.object({ limit: integerParameter(1, 500).optional() });
const refused = (search: string) =>
  readQuery(search, schema).errors.map(({ code, message }) => `${code}: ${message}`);

Deno.test("any number of digits is an integer, which a bound refuses", () => {
  assert.deepEqual(readQuery("limit=500", schema), { query: { limit: 500 }, errors: [] });
  for (const digits of ["501", "9007199254740993", "9".repeat(17), "9".repeat(400)]) {
    assert.deepEqual(refused(`limit=${digits}`), [`out_of_range: must be at most 500, not ${digits}`]);
  }
  for (const digits of ["0", "-1", `-${"9".repeat(400)}`]) {
    assert.deepEqual(refused(`limit=${digits}`), [`out_of_range: must be at least 1, not ${digits}`]);
  }
  for (const text of ["", "1.0", "1e2", "0x1", "+1", " 1", "--1"]) {
    assert.deepEqual(
      refused(`limit=${encodeURIComponent(text)}`),
      ["invalid_value: must be an integer"],
      text,
    );
  }
});

Deno.test("the largest integer is taken, and the next one above it is not", () => {
  const whole = z.object({ since: integerParameter(0, Number.MAX_SAFE_INTEGER) });
  assert.equal(readQuery("since=9007199254740991", whole).errors.length, 0);
  assert.deepEqual(readQuery("since=9007199254740992", whole).errors.map(({ code }) => code), [
    "out_of_range",
  ]);
});

Deno.test("a parameter has one reason", () => {
  assert.deepEqual(refused("limit=0&limit=x&limit=1"), ["invalid_value: is given twice"]);
  assert.deepEqual(refused("x=1&x=2"), ["unknown_field: is no known field"]);
});
