import assert from "node:assert/strict";
import { assumedGpu } from "../assumed_gpu.ts";
import { countingGpu } from "../counting_gpu.ts";
import { gpuTest, limitedAllocator, randomWeight } from "../gpu_testing.ts";
import { Recorder } from "../recorder.ts";
import { Allocator, type DType, type Tensor } from "../tensor.ts";
import {
  createWeight,
  expectWeight,
  PART_ROWS,
  type Weight,
  weightParts,
  weightTensors,
  writeWeight,
} from "./weight.ts";

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

/** First rows and rows of the parts of a weight on a device that binds so many bytes. */
function partsOf(form: Pick<Weight, "type" | "shape">, limit_bytes: number): [number, number][] {
  const card = assumedGpu();
  Object.assign(card.facts.limits, { maxStorageBufferBindingSize: limit_bytes, maxBufferSize: limit_bytes });
  const allocator = new Allocator(countingGpu(card).device), weight = createWeight(allocator, "test", form);
  expectWeight(weight, "w");
  return weightParts(weight).map(({ first_row, part }) => [first_row, part.shape[0]]);
}

Deno.test("a weight is split by rows exactly when a plane is more than the device binds", () => {
  // A row of 64 values takes 128 bytes as F16; as Q8_0 64, and 8 of scales.
  const halves = { type: "f16", shape: [200, 64] } as const, bytes = { ...halves, type: "q8_0" } as const;
  assert.deepEqual(partsOf(halves, 200 * 128), [[0, 200]]);
  assert.deepEqual(partsOf(halves, 200 * 128 - 1), [[0, 192], [192, 8]]);
  assert.deepEqual(partsOf(halves, 128 * 128 - 1), [[0, 64], [64, 64], [128, 64], [192, 8]]);
  assert.deepEqual(partsOf(bytes, 200 * 64), [[0, 200]]);
  assert.deepEqual(partsOf(bytes, 128 * 64), [[0, 128], [128, 72]]);
  assert.throws(() => partsOf(halves, 64 * 128 - 1), { code: "out_of_memory" }, "not even the fewest rows");
});

Deno.test("parts that are no weight together are named", () => {
  const part = (rows: number, columns = 4) =>
    ({ type: "f32", values: tensor([rows, columns], "f32"), shape: [rows, columns] }) as const;
  const split = (...parts: ReturnType<typeof part>[]): Weight => ({
    type: "f32",
    shape: [PART_ROWS + 3, 4],
    parts,
  });
  assert.deepEqual(expectWeight(split(part(PART_ROWS), part(3)), "w"), [PART_ROWS + 3, 4]);
  assert.throws(() => expectWeight(split(part(PART_ROWS), part(4)), "w"), /its parts have 68 rows of 67/);
  assert.throws(
    () => expectWeight(split(part(3), part(PART_ROWS)), "w"),
    /first row of a part of w 3: expected a/,
  );
  assert.throws(() => expectWeight(split(part(PART_ROWS), part(3, 8)), "w"), /another type or width/);
});

gpuTest(
  "blocks go to the part and the row of which they are, also where a piece is of several parts",
  async (gpu) => {
    for (const [type, columns] of [["q8_0", 64], ["q6_k", 256]] as const) {
      const rows = 2 * PART_ROWS + 7, form = { type, shape: [rows, columns] } as const;
      const { bytes } = randomWeight(1, type, rows * columns);
      const row_bytes = bytes.length / rows,
        block_bytes = row_bytes / (columns / (type === "q8_0" ? 32 : 256));
      const whole_allocator = new Allocator(gpu.device), recorder = new Recorder(gpu);
      const limited = limitedAllocator(gpu, PART_ROWS * columns);
      const whole = createWeight(whole_allocator, "test", form), split = createWeight(limited, "test", form);
      assert.equal(weightParts(split).length, 3);
      writeWeight(whole_allocator, whole, bytes);
      // The first piece ends in the first part's last row, the second reaches into the third part.
      const ends = [
        PART_ROWS * row_bytes - block_bytes,
        (2 * PART_ROWS + 2) * row_bytes + block_bytes,
        bytes.length,
      ];
      ends.forEach((end, i) => {
        const from = ends[i - 1] ?? 0;
        writeWeight(limited, split, bytes.subarray(from, end), from / block_bytes);
      });
      const read = async (weight: Weight) =>
        (await recorder.submitAndRead(weightTensors(weight))).map((plane) => new Uint8Array(plane));
      const planes = await read(whole), parts = await read(split);
      planes.forEach((plane, p) => {
        const joined = parts.filter((_, i) => i % planes.length === p).flatMap((part) => [...part]);
        assert.deepEqual(Uint8Array.from(joined), plane, `plane ${p} of ${type}`);
      });
      for (const each of [recorder, whole_allocator, limited]) each.destroy();
    }
  },
);
