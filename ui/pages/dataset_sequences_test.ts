import assert from "node:assert/strict";
import type { DatasetToken } from "../../api/types.ts";
import { sequencesOf } from "./dataset_sequences.ts";

function token(text: string, sequence: number, side: DatasetToken["side"] = null): DatasetToken {
  return { id: 1, text, origin: "prompt", trained: false, sequence, side };
}

Deno.test("the tokens of a row are divided by sequence and by the completion of a pair", () => {
  const titles = (tokens: DatasetToken[]) =>
    sequencesOf(tokens).map(({ title, tokens }) => [title, tokens.map(({ text }) => text).join("")]);
  assert.deepEqual(titles([token("a", 0), token("b", 0), token("c", 1)]), [["sequence 1", "ab"], [
    ...["sequence 2", "c"],
  ]]);
  assert.deepEqual(titles([token("a", 0, "chosen"), token("b", 0, "rejected"), token("c", 1, "chosen")]), [
    ["chosen", "a"],
    ["rejected", "b"],
    ["chosen, sequence 2", "c"],
  ]);
});
