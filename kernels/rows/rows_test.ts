import assert from "node:assert/strict";
import { ShapeError } from "../shape.ts";
import { filled, gpuTest, randomNormal, run } from "../gpu_testing.ts";
import { fill, gatherRows, packHalves, scatterAddRows, scatterRows, unpackHalves } from "./rows.ts";

/** Widths for both item sizes. Every result is a copy or one sum of f32, so comparisons are exact. */
const widths = [3, 8];
const NONE = 0xffffffff;

for (const width of widths) {
  gpuTest(`gatherRows copies rows of ${width}, zeros where there is none`, async (gpu) => {
    const x = randomNormal(1, 5 * width), index = [4, 0, 0, NONE, 5, 2];
    const { y } = await run(gpu, {
      x: [x, [5, width]],
      index: [index, [6], "u32"],
      y: filled(NaN, 6, width),
    }, (recorder, t) => gatherRows(recorder, t));
    index.forEach((source, i) => {
      const expected = source < 5 ? x.slice(source * width, (source + 1) * width) : new Float64Array(width);
      assert.deepEqual(y.slice(i * width, (i + 1) * width), expected, `row ${i}`);
    });
  });

  gpuTest(`scatterRows copies rows of ${width} and skips rows with an invalid index`, async (gpu) => {
    const y = randomNormal(1, 4 * width), index = [3, NONE, 0, 5];
    const { x } = await run(gpu, {
      x: filled(0.5, 5, width),
      index: [index, [4], "u32"],
      y: [y, [4, width]],
    }, (recorder, t) => scatterRows(recorder, t));
    const expected = new Float64Array(5 * width).fill(0.5);
    expected.set(y.subarray(0, width), 3 * width);
    expected.set(y.subarray(2 * width, 3 * width), 0);
    assert.deepEqual(x, expected);
  });

  gpuTest(`scatterAddRows adds rows of ${width} and skips rows with an invalid index`, async (gpu) => {
    // The last index times the items of a row is 2 modulo 2^32: without a check it would reach into the tensor.
    const y = randomNormal(1, 4 * width), index = [3, NONE, 0, width === 3 ? 0x55555556 : 0x80000001];
    const { x } = await run(gpu, {
      x: filled(0.5, 5, width),
      index: [index, [4], "u32"],
      y: [y, [4, width]],
    }, (recorder, t) => scatterAddRows(recorder, t));
    const expected = new Float64Array(5 * width).fill(0.5);
    for (let c = 0; c < width; c++) {
      expected[3 * width + c] = Math.fround(0.5 + y[c]!);
      expected[c] = Math.fround(0.5 + y[2 * width + c]!);
    }
    assert.deepEqual(x, expected);
  });

  gpuTest(`fill reaches every element of [65, ${width}]`, async (gpu) => {
    const given = {
      x: filled(NaN, 65, width),
      words: [new Uint32Array(65 * width), [65, width], "u32"],
    } as const;
    const actual = await run(gpu, given, (recorder, t) => {
      fill(recorder, t.x, -1.25);
      fill(recorder, t.words, 0xfffffffe);
    });
    assert.deepEqual(actual.x, new Float64Array(65 * width).fill(-1.25));
    assert.deepEqual(actual.words, new Float64Array(65 * width).fill(0xfffffffe));
  });
}

gpuTest("fill works beyond one axis of the grid", async (gpu) => {
  const count = 65_535 * 64 + 65;
  const { x } = await run(
    gpu,
    { x: [new Float32Array(count), [count]] },
    (recorder, t) => fill(recorder, t.x, 3),
  );
  assert.equal(x.every((v) => v === 3), true);
});

gpuTest("rows names the tensor whose shape is wrong", async (gpu) => {
  const given = { x: filled(0, 2, 3), y: filled(0, 3, 2), index: filled(0, 3) };
  await run(gpu, given, (recorder, { x, y, index }) => {
    const error = new ShapeError("Cannot use y [3, 2]: expected [3, 3]");
    assert.throws(() => gatherRows(recorder, { x, y, index }), error);
    assert.throws(() => scatterAddRows(recorder, { x, y, index }), error);
  });
});

gpuTest("packHalves rounds to half precision, and unpackHalves gives that back", async (gpu) => {
  const values = [
    0,
    1,
    1 + 2 ** -11,
    -1 - 3 * 2 ** -11,
    65_504,
    1e6,
    -1e6,
    2 ** -24,
    -0.1,
    3.14159,
    2 ** 15 + 8,
    7,
  ];
  const { x, halves } = await run(gpu, {
    x: [values, [3, 4]],
    halves: [new Float64Array(12), [3, 4], "f16"],
  }, (recorder, t) => {
    packHalves(recorder, t);
    fill(recorder, t.x, 0);
    unpackHalves(recorder, t);
  });
  const expected = values.map((value) => Math.f16round(Math.max(-65_504, Math.min(65_504, value))));
  assert.deepEqual([...x], expected);
  assert.deepEqual([...halves], expected);
});
