import assert from "node:assert/strict";
import type { Gpu } from "./device.ts";
import { gpuTest, run } from "./gpu_testing.ts";
import { defineKernel } from "./kernel.ts";
import { constantsPart, deviceOptions, itemSize, lanesPart, rowThreads, wrappedGrid } from "./variant.ts";

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
  const { text } = constantsPart({ threads: 64, is_mean: false, cap: { f32: 0.5 } });
  assert.equal(text, "const threads = 64u;\nconst is_mean = false;\nconst cap = f32(0.5);\n");
});

/** Lane l has 10 + (3 · l mod LANES), and stores broadcasts from the first and the last lane, maximum and minimum. */
const EXCHANGE = `
@group(0) @binding(1) var<storage, read_write> out: array<vec4<f32>>;
@compute @workgroup_size(LANES)
fn main(@builtin(local_invocation_index) lane: u32) {
  let x = 10u + 3u * lane % LANES;
  let vector = broadcast_vec4u_0(vec4<u32>(x)) + broadcast_u32_LAST(x);
  let float = broadcast_vec4f_0(vec4<f32>(f32(x))) + broadcast_f32_LAST(f32(x));
  out[lane] = vec4<f32>(f32(vector.x), float.w, f32(subgroup_max(x)), f32(subgroup_min(x)));
}`;

function exchange(gpu: Gpu, lanes: number): Promise<{ out: Float64Array }> {
  const text = EXCHANGE.replaceAll("LANES", `${lanes}u`).replaceAll("LAST", String(lanes - 1));
  const wgsl = [lanesPart(lanes), { file: "exchange.wgsl", text }];
  const kernel = defineKernel({ name: "exchange", wgsl, params: {}, inputs: [], outputs: ["out"] });
  const out = [new Array(4 * lanes).fill(0), [lanes, 4]] as const;
  return run(gpu, { out }, (recorder, tensors) => recorder.dispatch(kernel, {}, tensors, [1]));
}

gpuTest("a lane alone gets its own number from every exchange, without subgroup operations", async (gpu) => {
  assert.doesNotMatch(lanesPart(1).text, /subgroup[A-Z]/);
  assert.deepEqual([...(await exchange(gpu, 1)).out], [20, 20, 10, 10]);
});

gpuTest("the lanes of a subgroup get each other's numbers", async (gpu) => {
  const { lanes } = deviceOptions(gpu);
  const { out } = await exchange(gpu, lanes);
  const last = 10 + 3 * (lanes - 1) % lanes, row = [10 + last, 10 + last, 10 + lanes - 1, 10];
  assert.deepEqual([...out], Array.from({ length: lanes }, () => row).flat());
}, (gpu) => deviceOptions(gpu).lanes === 1 ? "the device has no subgroups to broadcast in" : null);
