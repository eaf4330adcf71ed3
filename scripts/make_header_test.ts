import assert from "node:assert/strict";
import { withFolder } from "../tests/folder.ts";
import { openGguf, openGgufHeader } from "../trainer/formats/gguf.ts";
import { readTrainableShape } from "../trainer/model/architectures/registry.ts";
import { readTokenizer } from "../trainer/tokenizer/read_tokenizer.ts";
import { makeHeader, SHAPE_05B, SHAPE_15B, SHAPE_8B } from "./make_header.ts";

Deno.test("the header of 8B in Q4_K_M has its shape, its types and a vocabulary, and no values", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/8b.gguf`;
    await makeHeader(path);
    using file = await openGgufHeader(path);
    assert.deepEqual(readTrainableShape(file), { ...SHAPE_8B, norm_eps: Math.fround(SHAPE_8B.norm_eps) });
    assert.ok(readTokenizer(file).encode("hello", { special: false }).length > 0);
    const count = (type: string) =>
      [...file.tensors.values()].filter((tensor) => tensor.type === type).length;
    // 16 layers of 32 have more bits in two matrices; llama.cpp's files of this kind have 33 and 193.
    assert.deepEqual(["Q6_K", "Q4_K", "F32"].map(count), [33, 193, 65]);
    const parameters = [...file.tensors.values()].reduce(
      (sum, { shape }) => sum + shape.reduce((a, b) => a * b),
      0,
    );
    assert.equal(parameters, 8_030_261_248);
    assert.ok((await Deno.stat(path)).size < 8 << 20);
    await assert.rejects(openGguf(path), { code: "format_invalid", message: /is larger than the file/ });
  });
});

Deno.test("the headers of 0.5B and 1.5B in F16 have their shapes and one matrix for both ends", async () => {
  // As their authors count the parameters.
  for (
    const [name, expected, count] of [
      ["0.5b", SHAPE_05B, 494_032_768],
      ["1.5b", SHAPE_15B, 1_543_714_304],
    ] as const
  ) {
    await withFolder(async (folder) => {
      const path = `${folder}/${name}.gguf`;
      await makeHeader(path, name);
      using file = await openGgufHeader(path);
      assert.deepEqual(readTrainableShape(file), { ...expected, norm_eps: Math.fround(expected.norm_eps) });
      const parameters = [...file.tensors.values()].reduce(
        (sum, { shape }) => sum + shape.reduce((a, b) => a * b),
        0,
      );
      assert.equal(parameters, count);
    });
  }
});

Deno.test("the header of 0.5B in Q4_K_M has the types of llama.cpp's file", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/05b.gguf`;
    await makeHeader(path, "0.5b-q4_k_m");
    using file = await openGgufHeader(path);
    const counts: Record<string, number> = {};
    for (const { type } of file.tensors.values()) counts[type] = (counts[type] ?? 0) + 1;
    // As llama.cpp lists them of published files of Qwen2.5 0.5B.
    assert.deepEqual(counts, { F32: 121, Q5_0: 132, Q8_0: 13, Q4_K: 12, Q6_K: 12 });
  });
});
