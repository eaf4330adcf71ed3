import assert from "node:assert/strict";
import { DistinctTexts, NEAR_DUPLICATE_SIMILARITY, normalizedText } from "./near_duplicates.ts";

Deno.test("case, punctuation, spaces and compatible forms do not distinguish texts", () => {
  assert.equal(normalizedText("  Écris «ﬁn» — 3× !"), "écris fin 3");
  const texts = new DistinctTexts();
  assert.deepEqual(["Go on", "go  ON!", "Go off", "", "?"].map((text) => texts.add(text)), [
    true,
    false,
    true,
    true,
    false,
  ]);
});

Deno.test("the share of common shingles decides, at its limit and below", () => {
  const words = (n: number, from = 0) => Array.from({ length: n }, (_, i) => `w${from + i}`);
  // 12 words have 10 shingles. With further words at the end: 10 of 14, and 10 of 15.
  const similarity = (extra: number) => 10 / (10 + extra);
  assert.ok(similarity(4) >= NEAR_DUPLICATE_SIMILARITY && similarity(5) < NEAR_DUPLICATE_SIMILARITY);
  for (const [extra, is_new] of [[4, false], [5, true]] as const) {
    const texts = new DistinctTexts();
    texts.add(words(12).join(" "));
    assert.equal(texts.add(words(12 + extra).join(" ")), is_new);
    assert.equal(texts.add(words(12, 100).join(" ")), true);
  }
});
