import assert from "node:assert/strict";
import { PAGE_TOKENS } from "../../core/kv_pages.ts";
import type { Gpu } from "../../kernels/device.ts";
import { gpuTest } from "../../kernels/gpu_testing.ts";
import { Recorder } from "../../kernels/recorder.ts";
import { Allocator, type Tensor, view } from "../../kernels/tensor.ts";
import { testShape } from "../model/model_testing.ts";
import { KvCache } from "./kv_cache.ts";

const LAYERS = 3, SHAPE = testShape(LAYERS, { kv_heads: 1, head_width: 4 });
const PAGE_BYTES = PAGE_TOKENS * 4 * 4;

function newCache(gpu: Gpu, pages: number) {
  const allocator = new Allocator(gpu.device), recorder = new Recorder(gpu, allocator);
  const cache = new KvCache(allocator, { recorder, shape: SHAPE }, { pages, kv: "f32" });
  return { allocator, recorder, cache, close: () => allocator.destroy() };
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
  (gpu) => {
    const { cache, allocator, close } = newCache(gpu, 1001);
    assert.deepEqual([cache.capacity, allocator.bytes.kv ?? 0], [0, 0]);
    // 1001 / 2ⁿ rounded up is 501, 251, 126; 63 is below the fewest pages.
    for (const [count, capacity] of [[1, 126], [126, 126], [127, 251], [251, 251], [252, 501], [502, 1001]]) {
      cache.reserve(count!);
      assert.deepEqual([cache.capacity, allocator.bytes.kv], [capacity, 2 * LAYERS * capacity! * PAGE_BYTES]);
    }
    cache.reserve(3);
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
