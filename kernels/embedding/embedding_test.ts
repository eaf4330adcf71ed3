import assert from "node:assert/strict";
import { ShapeError } from "../shape.ts";
import { filled, gpuTest, limitedAllocator, randomWeight, run, uploadWeight } from "../gpu_testing.ts";
import { PART_ROWS, weightParts } from "../weights/weight.ts";
import { WEIGHT_TYPE_NAMES, WEIGHT_TYPES, type WeightTypeName } from "../weights/table.ts";
import { rowMultiple } from "../weights/weight_type.ts";
import { embedding } from "./embedding.ts";

const ROWS = 7, SCALE = Math.fround(Math.sqrt(48));

/** Every type with its shortest row, and with three of them, so that rows do not start at powers of two. */
const CASES = WEIGHT_TYPE_NAMES.flatMap((type): [WeightTypeName, number, string][] => {
  const width = Math.max(4, rowMultiple(WEIGHT_TYPES[type]));
  return [[type, width, "the shortest row"], [type, 3 * width, "a row of three blocks or vectors"]];
});

for (const [type, width, name] of CASES) {
  gpuTest(`embedding copies rows of ${type} exactly: ${name}`, async (gpu) => {
    const table = randomWeight(1, type, ROWS * width), ids = [6, 0, 3, 3, 1];
    const { x, scaled } = await run(
      gpu,
      {
        ids: [ids, [ids.length], "u32"],
        x: filled(NaN, ids.length, width),
        scaled: filled(NaN, ids.length, width),
      },
      (recorder, t, allocator) => {
        const weight = uploadWeight(allocator, { type, shape: [ROWS, width] }, table.bytes);
        embedding(recorder, { ids: t.ids, table: weight, x: t.x });
        embedding(recorder, { ids: t.ids, table: weight, x: t.scaled }, SCALE);
      },
    );
    ids.forEach((id, n) => {
      const expected = table.values.slice(id * width, (id + 1) * width);
      assert.deepEqual(x.slice(n * width, (n + 1) * width), expected, `row ${n}`);
      const times = expected.map((value) => Math.fround(SCALE * value));
      assert.deepEqual(scaled.slice(n * width, (n + 1) * width), times, `row ${n}, scaled`);
    });
  });
}

gpuTest("a split table gives the rows of each of its parts, and of no other", async (gpu) => {
  const rows = 2 * PART_ROWS + 5, width = 32, last = rows - 1;
  const table = randomWeight(2, "q8_0", rows * width);
  const ids = [PART_ROWS, PART_ROWS - 1, 0, last, 2 * PART_ROWS, 2 * PART_ROWS - 1, 3];
  const limited = limitedAllocator(gpu, PART_ROWS * width);
  const given = { ids: [ids, [ids.length], "u32"], x: filled(NaN, ids.length, width) } as const;
  const { x } = await run(gpu, given, (recorder, t) => {
    const weight = uploadWeight(limited, { type: "q8_0", shape: [rows, width] }, table.bytes);
    assert.deepEqual(weightParts(weight).map(({ first_row }) => first_row), [0, PART_ROWS, 2 * PART_ROWS]);
    embedding(recorder, { ids: t.ids, table: weight, x: t.x });
  });
  limited.destroy();
  ids.forEach((id, n) => {
    const expected = table.values.slice(id * width, (id + 1) * width);
    assert.deepEqual(x.slice(n * width, (n + 1) * width), expected, `row ${n}, of token ${id}`);
  });
});

gpuTest("embedding names the tensor whose shape is wrong", async (gpu) => {
  const given = { ids: [[0], [1], "u32"], values: filled(0, 4, 6), x: filled(0, 1, 4) } as const;
  await run(gpu, given, (recorder, { ids, values, x }) => {
    const table = { type: "f32", values, shape: [4, 6] } as const;
    assert.throws(
      () => embedding(recorder, { ids, table, x }),
      new ShapeError("Cannot use x [1, 4]: expected [1, 6]"),
    );
    assert.throws(
      () => embedding(recorder, { ids, table, x: { ...x, shape: [1, 6] } }),
      new ShapeError("Cannot use columns of table 6: expected a multiple of 4"),
    );
  });
});
