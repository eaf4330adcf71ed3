import assert from "node:assert/strict";
import type { Gpu } from "../device.ts";
import { ShapeError } from "../shape.ts";
import { filled, gpuTest, randomNormal, run } from "../testing.ts";
import { Q8_0_BLOCK, type WeightType } from "../weight.ts";
import { embedding } from "./embedding.ts";

const ROWS = 7;

/** A table of small whole numbers and powers of two: every form holds it exactly, so results are compared exactly. */
function exactTable(width: number) {
  const quants = Int8Array.from({ length: ROWS * width }, (_, i) => (i * 37) % 255 - 127);
  const scales = Float64Array.from({ length: ROWS * width / Q8_0_BLOCK }, (_, i) => 2 ** (i % 5 - 3));
  return { quants, scales };
}

async function look(gpu: Gpu, type: WeightType, ids: readonly number[], width: number) {
  const given = randomNormal(1, ROWS * width).map((v) => Math.fround(Math.round(v * 64) / 64));
  if (type !== "q8_0") {
    const { x } = await run(gpu, {
      ids: [ids, [ids.length], "u32"],
      values: [given, [ROWS, width], type],
      x: filled(NaN, ids.length, width),
    }, (recorder, t) => {
      embedding(recorder, { ids: t.ids, table: { type, values: t.values, shape: [ROWS, width] }, x: t.x });
    });
    return { x, table: given };
  }
  const { quants, scales } = exactTable(width);
  const { x } = await run(gpu, {
    ids: [ids, [ids.length], "u32"],
    words: [new Uint32Array(quants.buffer), [quants.length / 4], "u32"],
    scales: [scales, [ROWS, width / Q8_0_BLOCK]],
    x: filled(NaN, ids.length, width),
  }, (recorder, t) => {
    const values = { ...t.words, shape: [ROWS, width], dtype: "i8" as const };
    const table = { type, values, scales: t.scales, shape: [ROWS, width] as const };
    embedding(recorder, { ids: t.ids, table, x: t.x });
  });
  return { x, table: Float64Array.from(quants, (q, i) => q * scales[Math.floor(i / Q8_0_BLOCK)]!) };
}

const cases: readonly [WeightType, number, string][] = [
  ["f32", 64, "a row of whole vectors"],
  ["f32", 5, "an odd row"],
  ["f16", 64, "a row of whole vectors"],
  ["f16", 6, "three pairs"],
  ["q8_0", 32, "one block a row"],
  ["q8_0", 96, "three blocks a row"],
];

for (const [type, width, name] of cases) {
  gpuTest(`embedding copies rows of ${type} exactly: ${name}`, async (gpu) => {
    const ids = [6, 0, 3, 3, 1];
    const { x, table } = await look(gpu, type, ids, width);
    ids.forEach((id, n) => {
      const expected = table.slice(id * width, (id + 1) * width);
      assert.deepEqual(x.slice(n * width, (n + 1) * width), expected, `row ${n}`);
    });
  });
}

gpuTest("embedding names the tensor whose shape is wrong", async (gpu) => {
  const given = { ids: [[0], [1], "u32"], values: filled(0, 4, 3), x: filled(0, 1, 4) } as const;
  await run(gpu, given, (recorder, { ids, values, x }) => {
    assert.throws(
      () => embedding(recorder, { ids, table: { type: "f32", values, shape: [4, 3] }, x }),
      new ShapeError("Cannot use x [1, 4]: expected [1, 3]"),
    );
  });
});
