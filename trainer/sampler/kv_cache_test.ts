import assert from "node:assert/strict";
import { PAGE_TOKENS } from "../../core/kv_pages.ts";
import { assumedGpu } from "../../kernels/assumed_gpu.ts";
import { countingGpu } from "../../kernels/counting_gpu.ts";
import type { Gpu } from "../../kernels/device.ts";
import { gpuTest } from "../../kernels/gpu_testing.ts";
import { Recorder } from "../../kernels/recorder.ts";
import { Allocator, type Tensor, view } from "../../kernels/tensor.ts";
import { testShape } from "../model/model_testing.ts";
import { KvCache, UNFREED_BYTES } from "./kv_cache.ts";

const LAYERS = 3, SHAPE = testShape(LAYERS, { kv_heads: 1, head_width: 4 });
const PAGE_BYTES = PAGE_TOKENS * 4 * 4;

function newCache(gpu: Gpu, pages: number) {
  const allocator = new Allocator(gpu.device), recorder = new Recorder(gpu, allocator);
  const cache = new KvCache(allocator, { recorder, shape: SHAPE }, { pages, kv: "f32" });
  return { allocator, recorder, cache, close: () => allocator.destroy() };
}

/** A cache of a device without memory. */
function countedCache(pages: number, software = false) {
  const { facts, subgroup_size } = assumedGpu();
  const gpu = countingGpu({ facts: { ...facts, software }, subgroup_size });
  Object.assign(gpu.device, { pushErrorScope() {}, popErrorScope: () => Promise.resolve(null) });
  return newCache(gpu, pages);
}

/** All tensors of a cache. */
const tensorsOf = (cache: KvCache): Tensor[] =>
  SHAPE.layers.flatMap((_, i) => {
    const { k_pages, v_pages } = cache.layer(i);
    return [k_pages, v_pages];
  });

/** The value of a tensor's page. */
const pageValue = (tensor: number, page: number) =>
  Float32Array.from({ length: PAGE_BYTES / 4 }, () => 100 * tensor + page);

gpuTest(
  "a cache has no bytes at first, then those of the smallest share of its pages that suffices",
  async (gpu) => {
    const { cache, allocator, close } = newCache(gpu, 1001);
    assert.deepEqual([cache.capacity, allocator.bytes.kv ?? 0], [0, 0]);
    // 1001 / 2ⁿ rounded up is 501, 251, 126; 63 is below the fewest pages.
    for (const [count, capacity] of [[1, 126], [126, 126], [127, 251], [251, 251], [252, 501], [502, 1001]]) {
      await cache.grow(count!);
      assert.deepEqual([cache.capacity, allocator.bytes.kv], [capacity, 2 * LAYERS * capacity! * PAGE_BYTES]);
    }
    await cache.grow(3);
    assert.equal(cache.capacity, 1001, "it does not shrink");
    cache.free();
    assert.deepEqual([cache.capacity, allocator.bytes.kv], [0, 0]);
    close();
  },
);

gpuTest(
  "pages keep what they hold while the cache grows, and one tensor has old and new bytes at a time",
  async (gpu) => {
    const { cache, allocator, recorder, close } = newCache(gpu, 256);
    await cache.grow(64);
    tensorsOf(cache).forEach((tensor, i) => {
      for (const page of [0, 63]) allocator.write(tensor, pageValue(i, page), page * PAGE_BYTES);
    });
    await cache.grow(65);
    await cache.grow(256);
    const read = await recorder.submitAndRead(
      tensorsOf(cache).flatMap((tensor) =>
        [0, 63, 64].map((page) => view(tensor, [PAGE_BYTES / 4], page * PAGE_BYTES / 4))
      ),
    );
    const expected = tensorsOf(cache).flatMap((_, i) => [
      ...[pageValue(i, 0), pageValue(i, 63)],
      new Float32Array(PAGE_BYTES / 4),
    ]);
    assert.deepEqual(read.map((bytes) => new Float32Array(bytes)), expected);
    assert.equal(allocator.peak.kv, (2 * LAYERS * 256 + 128) * PAGE_BYTES);
    close();
  },
);

Deno.test("what is reserved is what growing needs, and nothing is copied", async () => {
  for (const pages of [64, 256, 1001]) {
    const grown = countedCache(pages), reserved = countedCache(pages);
    await grown.cache.grow(1);
    while (grown.cache.capacity < pages) await grown.cache.grow(grown.cache.capacity + 1);
    reserved.cache.reserve();
    assert.equal(reserved.cache.capacity, pages);
    assert.equal(reserved.allocator.peak.kv, grown.allocator.peak.kv);
    const before = pages === 64 ? 0 : Math.ceil(pages / 2);
    assert.equal(reserved.allocator.peak.kv, (2 * LAYERS * pages + before) * PAGE_BYTES);
    assert.equal(reserved.allocator.bytes.kv, 2 * LAYERS * pages * PAGE_BYTES);
    assert.equal(reserved.recorder.counters.submits, 0);
  }
});

Deno.test("on a GPU a growing cache waits before many replaced bytes are still there", async () => {
  const waitsOf = async (bytes: number, software: boolean) => {
    const { cache, recorder } = countedCache(2 * bytes / PAGE_BYTES, software), waits: number[] = [];
    let copies = 0;
    const copy = recorder.copy.bind(recorder);
    recorder.copy = (from, to) => (copies++, copy(from, to));
    recorder.submitAndWait = () => Promise.resolve(void waits.push(copies));
    await cache.grow(1);
    while (cache.capacity < bytes / PAGE_BYTES) await cache.grow(cache.capacity + 1);
    waits.length = copies = 0;
    await cache.grow(bytes / PAGE_BYTES + 1);
    assert.equal(copies, 2 * LAYERS);
    return waits;
  };
  const half = UNFREED_BYTES / 2;
  assert.deepEqual(await waitsOf(half, false), [2, 4, 6]);
  assert.deepEqual(await waitsOf(half - PAGE_BYTES, false), [3, 6]);
  assert.deepEqual(await waitsOf(UNFREED_BYTES, false), [1, 2, 3, 4, 5, 6]);
  assert.deepEqual(await waitsOf(half, true), []);
});

gpuTest("where the device has no more memory, pages that were there keep what they hold", async (gpu) => {
  const { cache, allocator, recorder, close } = newCache(gpu, 128), { popErrorScope } = GPUDevice.prototype;
  await cache.grow(64);
  tensorsOf(cache).forEach((tensor, i) => allocator.write(tensor, pageValue(i, 9), 9 * PAGE_BYTES));
  let scopes = 0;
  try {
    GPUDevice.prototype.popErrorScope = async function () {
      const error = await popErrorScope.call(this);
      return ++scopes === 4 ? new GPUOutOfMemoryError("full") : error;
    };
    await assert.rejects(cache.grow(65), {
      ...{ code: "out_of_memory", details: { component: "kv", pages: 128 } },
      message: "Cannot hold 65 pages of the key/value cache: the device has no more memory",
    });
  } finally {
    GPUDevice.prototype.popErrorScope = popErrorScope;
  }
  const pages = () => tensorsOf(cache).map((tensor) => view(tensor, [PAGE_BYTES / 4], 9 * PAGE_BYTES / 4));
  const expected = tensorsOf(cache).map((_, i) => pageValue(i, 9));
  const held = async () => (await recorder.submitAndRead(pages())).map((bytes) => new Float32Array(bytes));
  assert.deepEqual([cache.capacity, await held()], [64, expected]);
  await cache.grow(65);
  assert.deepEqual([cache.capacity, await held()], [128, expected]);
  assert.equal(allocator.bytes.kv, 2 * LAYERS * 128 * PAGE_BYTES);
  close();
});
