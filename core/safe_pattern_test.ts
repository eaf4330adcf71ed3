import assert from "node:assert/strict";
import { MAX_PATTERN_CHARS, patternRefusal } from "./safe_pattern.ts";

Deno.test("patterns of common parameters are accepted", () => {
  for (
    const pattern of [
      "",
      "^[a-z]+$",
      "^[a-z0-9]+(?:-[a-z0-9]+)*$",
      "^\\d{4}-\\d{2}-\\d{2}$",
      "^(\\d{1,3}\\.){3}\\d{1,3}$",
      "^(foo|bar)+$",
      "^[^@\\s]+@[^@\\s]+\\.[^@\\s]+$",
      "^(GET|POST|PUT)$",
      "^/(?:[A-Za-z_]+/)*$",
      "^(?<year>\\d{4})\\p{L}*$",
      "[a-z]+@[a-z]+\\.com",
      "^v\\d+(\\.\\d+)?(\\.\\d+)?$",
      "a.*b",
    ]
  ) assert.equal(patternRefusal(pattern), null, pattern);
});

Deno.test("patterns whose time grows without measure are refused", () => {
  // The examples of the OWASP page on denial of service by regular expressions, and variations.
  for (
    const pattern of [
      "^(a+)+$",
      "^([a-zA-Z]+)*$",
      "^(a|aa)+$",
      "^(a|a?)+$",
      "(.*a){20}",
      "^(([a-z])+.)+[A-Z]([a-z])+$",
      "^(?:(?:a+)b?)*$",
      "^(\\w+\\s?)*$",
      "^(a{1,5}){1,50}$",
      "^.*.*.*=$",
      "x*y.*z.*",
      "^(?:x(?:a+)+)$",
      "^(한+)+$",
      "^([가-힣]+[나-다]?)*$",
      "^(\\p{Script=Hangul}+)+$",
      "^(\\u{1f600}+)+$",
    ]
  ) assert.notEqual(patternRefusal(pattern), null, pattern);
});

Deno.test("a refusal says why", () => {
  assert.match(patternRefusal("(")!, /no regular expression/);
  assert.match(patternRefusal("(a)\\1")!, /refers back/);
  assert.match(patternRefusal("(?=a)b")!, /looks around/);
  assert.match(patternRefusal("(?i:a)")!, /sets flags/);
  assert.match(patternRefusal("(a+)+")!, /several ways/);
  assert.match(patternRefusal("a".repeat(MAX_PATTERN_CHARS + 1))!, /1000 characters/);
  assert.equal(patternRefusal("a".repeat(MAX_PATTERN_CHARS)), null);
});
