import assert from "node:assert/strict";
import type { Gpu } from "./device.ts";
import { constantsPart, deviceOptions, itemSize, rowThreads, wrappedGrid } from "./variant.ts";

Deno.test("a software adapter runs the lanes of its subgroup, a GPU tiles", () => {
  const gpu = (software: boolean, subgroup_size: number) =>
    ({ subgroup_size, facts: { software } }) as unknown as Gpu;
  for (const lanes of [4, 8, 16]) assert.deepEqual(deviceOptions(gpu(true, lanes)), { form: "lanes", lanes });
  for (const size of [0, 2, 32]) {
    assert.deepEqual(
      deviceOptions(gpu(true, size)),
      { form: "lanes", lanes: 1 },
      `a subgroup of ${size}`,
    );
  }
  assert.equal(deviceOptions(gpu(false, 32)).form, "tiles");
});

Deno.test("a grid wraps into y without falling short of its count", () => {
  for (const count of [1, 65_535, 65_536, 200_000, 65_535 * 3 + 1]) {
    const [x, y] = wrappedGrid(count);
    assert.ok(x <= 65_535 && y <= 65_535 && x * y >= count && x * y < count + y, `${count}: ${x} × ${y}`);
  }
  assert.deepEqual(wrappedGrid(0), [0, 0]);
});

Deno.test("rows are read by four where every width allows it", () => {
  assert.equal(itemSize(8, 64), 4);
  assert.equal(itemSize(8, 6), 1);
});

Deno.test("a row's threads are a power of two that follows from its items", () => {
  assert.deepEqual([1, 64, 65, 512, 513, 40_000].map(rowThreads), [32, 32, 64, 64, 256, 256]);
});

Deno.test("constants become WGSL declarations", () => {
  assert.equal(constantsPart({ threads: 64, rank: 8 }).text, "const threads = 64u;\nconst rank = 8u;\n");
});
