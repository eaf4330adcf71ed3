import assert from "node:assert/strict";
import { ShapeError } from "../shape.ts";
import { filled, gpuTest, randomNormal, run } from "../gpu_testing.ts";
import { addBias } from "./bias.ts";

for (const [rows, columns] of [[1, 1], [3, 6], [33, 64], [2, 172], [70_000, 4]] as const) {
  gpuTest(`a bias is added to every row, rounded once: ${rows} rows of ${columns}`, async (gpu) => {
    const y = Float32Array.from(randomNormal(1, rows * columns));
    const bias = Float32Array.from(randomNormal(2, columns));
    const out = await run(
      gpu,
      { y: [y, [rows, columns]], bias: [bias, [columns]] },
      (recorder, t) => addBias(recorder, t),
    );
    assert.deepEqual(out.y, Float64Array.from(y, (value, i) => Math.fround(value + bias[i % columns]!)));
  });
}

gpuTest("a bias of another width is refused", async (gpu) => {
  await run(gpu, { y: filled(0, 2, 4), bias: filled(0, 3) }, (recorder, t) => {
    assert.throws(() => addBias(recorder, t), new ShapeError("Cannot use bias [3]: expected [4]"));
  });
});
