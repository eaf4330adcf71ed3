import assert from "node:assert/strict";
import fc from "fast-check";
import { SpecialTokens } from "./special_tokens.ts";

/** The same search done differently: the longest text at each position. */
function findSlowly(texts: readonly string[], text: string): [number, number, number][] {
  const found: [number, number, number][] = [];
  for (let at = 0; at < text.length;) {
    const [longest] = texts.filter((candidate) => text.startsWith(candidate, at))
      .sort((a, b) => b.length - a.length);
    if (longest === undefined) {
      at++;
      continue;
    }
    found.push([texts.indexOf(longest), at, at + longest.length]);
    at += longest.length;
  }
  return found;
}

Deno.test("special tokens are found from left to right, at each place the longest", () => {
  const text = fc.string({ unit: fc.constantFrom("a", "b", "<", ">", "😀"), maxLength: 30 });
  const texts = fc.uniqueArray(fc.string({ unit: fc.constantFrom("a", "b", "<", "😀"), minLength: 1 }));
  fc.assert(fc.property(texts, text, (tokens, drawn) => {
    const special = new SpecialTokens(tokens.map((token, id) => [token, id]));
    const found = [...special.find(drawn)].map(({ id, start, end }) => [id, start, end]);
    assert.deepEqual(found, findSlowly(tokens, drawn));
  }));
});

Deno.test("tokens that nearly match everywhere do not each cost time", () => {
  // Trying each of 1,000 tokens at each of 100,000 positions, unit by unit, would be about 10^10 steps.
  const tokens = Array.from(
    { length: 1000 },
    (_, i): [string, number] => [`${"a".repeat(100 + i % 20)}b${i}`, i],
  );
  assert.deepEqual([...new SpecialTokens(tokens).find("a".repeat(100_000))], []);
});
