import { equal } from "node:assert/strict";
import { chunkRows } from "./loss_head.ts";

Deno.test("a chunk of the vocabulary is what was asked for, within the rows and what the device binds", () => {
  equal(chunkRows(4096, 512, 1 << 20), 512);
  equal(chunkRows(4096, 500, 1 << 20), 448, "a multiple of 64");
  equal(chunkRows(100, 512, 1 << 20), 128, "no more than there are rows");
  // 128 MiB of f32 logits are 220 rows of a vocabulary of 151,936.
  equal(chunkRows(4096, 512, Math.floor(2 ** 27 / (4 * 151_936))), 192);
  equal(chunkRows(4096, 16, 8), 64, "at least one step");
});
