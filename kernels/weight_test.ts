import assert from "node:assert/strict";
import type { DType, Tensor } from "./tensor.ts";
import { expectWeight, type Weight } from "./weight.ts";

const tensor = (shape: number[], dtype: DType) => ({ shape, dtype }) as unknown as Tensor;

Deno.test("expectWeight returns the shape of a weight whose tensors fit", () => {
  const weight: Weight = {
    type: "q8_0",
    values: tensor([3, 64], "i8"),
    scales: tensor([3, 2], "f32"),
    shape: [3, 64],
  };
  assert.deepEqual(expectWeight(weight, "w"), [3, 64]);
  assert.deepEqual(expectWeight({ type: "f16", values: tensor([3, 6], "f16"), shape: [3, 6] }, "w"), [3, 6]);
});

Deno.test("expectWeight names what does not fit", () => {
  const values = tensor([3, 64], "i8");
  const cases: [Weight, RegExp][] = [
    [{ type: "f32", values: tensor([3, 5], "f32"), shape: [3, 4] }, /w\.values \[3, 5\]: expected \[3, 4\]/],
    [
      { type: "f32", values: tensor([3, 4], "f16"), shape: [3, 4] },
      /w\.values as f32: expected f32, got f16/,
    ],
    [
      { type: "f16", values: tensor([3, 5], "f16"), shape: [3, 5] },
      /columns of w 5: expected a multiple of 2/,
    ],
    [
      { type: "q8_0", values: tensor([3, 40], "i8"), scales: tensor([3, 1], "f32"), shape: [3, 40] },
      /columns of w 40: expected a multiple of 32/,
    ],
    [
      { type: "q8_0", values, scales: tensor([3, 3], "f32"), shape: [3, 64] },
      /w\.scales \[3, 3\]: expected \[3, 2\]/,
    ],
    [{ type: "q8_0", values, shape: [3, 64] }, /w as q8_0: it has no scales/],
    [
      { type: "q4_k", values: tensor([3, 64], "u32"), scales: tensor([3, 12], "u32"), shape: [3, 384] },
      /columns of w 384: expected a multiple of 256/,
    ],
    [
      { type: "q4_k", values: tensor([3, 64], "u32"), scales: tensor([3, 12], "f32"), shape: [3, 512] },
      /w\.scales as q4_k: expected u32, got f32/,
    ],
  ];
  for (const [weight, message] of cases) assert.throws(() => expectWeight(weight, "w"), message);
});
