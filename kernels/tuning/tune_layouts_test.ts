import assert from "node:assert/strict";
import { assumedGpu } from "../assumed_gpu.ts";
import { countingGpu } from "../counting_gpu.ts";
import type { Gpu } from "../device.ts";
import { TILES } from "../matmul/matmul_layout.ts";
import { type MeasuredProduct, timeProducts } from "./tune_layouts.ts";

const CARD = countingGpu(assumedGpu());

Deno.test("a GPU's measurements are long beside the wait, which is not part of them", async () => {
  const product: MeasuredProduct = {
    kind: { product: "nt", compute: "f16" },
    rows: 1024,
    columns: [1024],
    depth: 1024,
  };
  const timed = async (gpu: Gpu, product_ms: number) => {
    const runs: number[] = [];
    const time = timeProducts(gpu, (count, _, { form }) => {
      runs.push(count);
      // The first empty submit takes longer.
      return Promise.resolve((runs.length === 1 ? 30 : 11) + count * product_ms * (form === "lanes" ? 2 : 1));
    });
    const tile = await time(product, { ...TILES.small, split: true });
    const other = await time(product, { form: "lanes" } as Parameters<typeof time>[1]);
    return { runs, tile, other };
  };
  const close = (a: number, b: number) => assert.ok(Math.abs(a - b) < 1e-6, `${a} is ${b}`);
  // 2e10 operations are 9 products.
  const fast = await timed(CARD, 0.125);
  assert.deepEqual(fast.runs, [0, 0, 0, 9, 120, 120]);
  close(fast.tile, 15);
  close(fast.other, 30);
  const slow = await timed(CARD, 2);
  assert.deepEqual(slow.runs, [0, 0, 0, 9, 9]);
  close(slow.tile, 18);
  assert.equal((await timed(CARD, 1e-9)).runs.at(-1), 8192);
  close((await timed(CARD, 1e-9)).tile, 0.05);
  const software = { ...CARD, facts: { ...CARD.facts, software: true } };
  assert.deepEqual((await timed(software, 0.125)).runs, [0, 0, 0, 1, 1]);
});
