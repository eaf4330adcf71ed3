import assert from "node:assert/strict";
import { ServiceError } from "../core/errors.ts";
import { countingGpu } from "./counting_gpu.ts";
import { Staging } from "./readback.ts";
import { Recorder } from "./recorder.ts";
import { Allocator, type DType, type Tensor, tensorBytes, type UnbindableTensor, view } from "./tensor.ts";
import { gpuTest } from "./gpu_testing.ts";

const tensor = (shape: number[], dtype: DType = "f32", offset_bytes = 0) =>
  ({ shape, dtype, offset_bytes }) as unknown as Tensor;

Deno.test("tensors end at complete words", () => {
  const sizes: [number[], DType, number][] = [
    [[3, 5], "f32", 60],
    [[3], "u32", 12],
    [[3], "f16", 8],
    [[5], "i8", 8],
    [[], "f32", 4],
    [[0, 7], "f32", 0],
  ];
  for (const [shape, dtype, bytes] of sizes) {
    assert.equal(tensorBytes(shape, dtype), bytes, `${shape} ${dtype}`);
  }
});

Deno.test("a view reaches to its tensor's end and no further", () => {
  const whole = tensor([4, 6], "f32", 256);
  assert.equal(view(whole, [2, 6], 12).offset_bytes, 256 + 48);
  assert.equal(view(tensor([8], "f16"), [4], 4).offset_bytes, 8);
  const beyond = { message: /a view ends inside its tensor/ };
  assert.throws(() => view(whole, [2, 6], 13), beyond);
  assert.throws(() => view(whole, [5, 5]), beyond);
  assert.throws(() => view(view(whole, [2, 6], 12), [2, 6], 1), beyond);
});

gpuTest(
  "an allocator counts bytes by component, and those of its scopes until they are freed",
  ({ device }) => {
    const allocator = new Allocator(device), pages = allocator.scope(), inner = pages.scope();
    allocator.create("weights", [3, 5]);
    pages.create("kv", [8], "f16");
    inner.create("kv", [5], "i8");
    pages.createBuffer("staging", 12, GPUBufferUsage.MAP_READ);
    assert.deepEqual(allocator.bytes, { weights: 60, kv: 16 + 8, staging: 12 });
    assert.deepEqual([pages.bytes, inner.bytes], [{ kv: 16 + 8, staging: 12 }, { kv: 8 }]);
    inner.destroy();
    assert.deepEqual(allocator.bytes, { weights: 60, kv: 16, staging: 12 });
    pages.destroy();
    pages.destroy();
    assert.deepEqual(allocator.bytes, { weights: 60, kv: 0, staging: 0 }, "the second time counts nothing");
    allocator.destroy();
    assert.deepEqual(allocator.bytes, { weights: 0, kv: 0, staging: 0 });
  },
);

gpuTest("tensors of a scope can be used until it is freed", async ({ device }) => {
  const allocator = new Allocator(device), outer = allocator.scope(), inner = outer.scope();
  const tensors = [allocator, outer, inner].map((from) => from.create("x", [4]));
  const copies = async () => {
    const found: boolean[] = [];
    for (const { buffer } of tensors) {
      device.pushErrorScope("validation");
      const encoder = device.createCommandEncoder();
      encoder.clearBuffer(buffer);
      device.queue.submit([encoder.finish()]);
      found.push(await device.popErrorScope() === null);
    }
    return found;
  };
  assert.deepEqual(await copies(), [true, true, true]);
  outer.destroy();
  assert.deepEqual(await copies(), [true, false, false], "a scope takes those inside it along");
  allocator.destroy();
  assert.deepEqual(await copies(), [false, false, false]);
});

gpuTest("a tensor above what the device binds is out of memory, with the numbers", ({ device }) => {
  const allocator = new Allocator(device).scope();
  const limit_bytes = Math.min(device.limits.maxStorageBufferBindingSize, device.limits.maxBufferSize);
  const size_bytes = 4 * (Math.floor(limit_bytes / 4) + 1);
  assert.throws(() => allocator.create("kv", [size_bytes / 4]), (error: unknown) => {
    assert.ok(error instanceof ServiceError);
    assert.equal(error.code, "out_of_memory");
    assert.deepEqual(error.details, { name: "kv", component: "kv", size_bytes, limit_bytes });
    assert.equal(
      error.message,
      `Cannot allocate ${size_bytes} bytes for kv: the device binds at most ${limit_bytes}`,
    );
    return true;
  });
  assert.deepEqual(allocator.bytes, {}, "what was refused is not counted");
  const named = new RegExp(`^Cannot allocate ${size_bytes} bytes for output\\.weight: `);
  const create = () => allocator.create("weights", [size_bytes / 4], "f32", "output.weight");
  assert.throws(create, { message: named });
  assert.equal(allocator.limit_bytes, limit_bytes);
});

gpuTest(
  "a counting device counts the real one's allocations, and reports tensors above the binding limit",
  (gpu) => {
    const refused: UnbindableTensor[] = [];
    const real = new Allocator(gpu.device), counting = countingGpu(gpu);
    const counted = new Allocator(counting.device, { refuse: (tensor) => refused.push(tensor) });
    for (const allocator of [real, counted]) {
      new Recorder(allocator === real ? gpu : counting, allocator).reserveReadback([
        allocator.scope().upload("a", [70_000], new Uint8Array(70_000)),
      ]);
      allocator.scope().create("b", [3], "f16");
    }
    assert.deepEqual(counted.bytes, real.bytes);
    assert.deepEqual(real.bytes, { recorder: (1 << 20) + 64, staging: 70_000, a: 70_000, b: 8 });
    assert.equal(refused.length, 0);
    const above = counted.limit_bytes / 4 + 1;
    counted.scope().create("kv", [above]);
    assert.deepEqual(refused.map(({ size_bytes }) => size_bytes), [4 * above]);
    assert.equal(counted.bytes.kv, 4 * above);
    real.destroy();
  },
);

Deno.test("only the allocator creates buffers", async () => {
  const makers: string[] = [], root = new URL("..", import.meta.url);
  const search = async (folder: URL) => {
    for await (const { name, isDirectory } of Deno.readDir(folder)) {
      const path = new URL(isDirectory ? `${name}/` : name, folder);
      if (isDirectory) await search(path);
      else if (/\.ts$/.test(name) && !/_(test|testing|fake|contract)\.ts$/.test(name)) {
        if (/device\.createBuffer\b/.test(await Deno.readTextFile(path))) {
          makers.push(path.pathname.slice(root.pathname.length));
        }
      }
    }
  };
  for (const room of ["kernels/", "trainer/"]) await search(new URL(room, root));
  assert.deepEqual(makers.sort(), ["kernels/tensor.ts"]);
});

/** Reads tensors with one readback. */
async function readBack(
  { device, staging }: { device: GPUDevice; staging: Staging },
  tensors: readonly Tensor[],
): Promise<Uint8Array[]> {
  const encoder = device.createCommandEncoder();
  const offsets = staging.encode(encoder, tensors);
  device.queue.submit([encoder.finish()]);
  return (await staging.read(tensors, offsets)).map((bytes) => new Uint8Array(bytes));
}

gpuTest("several tensors come back in order, then more of them than before", async ({ device }) => {
  const allocator = new Allocator(device), staging = new Staging(allocator), reader = { device, staging };
  const a = allocator.upload("a", [5], Float32Array.of(1, 2, 3, 4, 5));
  const b = allocator.upload("b", [6], Uint8Array.of(9, 8, 7, 6, 5, 4));
  const tensors = [b, a, view(a, [2], 3)];
  const [first, second, third] = await readBack(reader, tensors);
  assert.deepEqual([...first!], [9, 8, 7, 6, 5, 4, 0, 0]);
  assert.deepEqual([...new Float32Array(second!.buffer)], [1, 2, 3, 4, 5]);
  assert.deepEqual([...new Float32Array(third!.buffer)], [4, 5]);
  assert.deepEqual(await readBack(reader, []), []);
  const before = allocator.bytes.staging!;
  const long = Uint32Array.from({ length: 50_000 }, (_, i) => i);
  const [words, again] = await readBack(reader, [allocator.upload("c", [50_000], long), a]);
  assert.deepEqual(new Uint32Array(words!.buffer), long);
  assert.deepEqual(again, second);
  assert.ok(before < 200_000 && allocator.bytes.staging! >= 200_000 + 20, "staging has grown");
  staging.destroy();
  assert.equal(allocator.bytes.staging, 0);
  allocator.destroy();
});

gpuTest("values longer than a piece or not a multiple of words are uploaded", async ({ device }) => {
  const allocator = new Allocator(device), staging = new Staging(allocator), reader = { device, staging };
  const count = (16 << 20) + 5;
  const values = Uint8Array.from({ length: count }, (_, i) => i % 251);
  const [bytes] = await readBack(reader, [allocator.upload("weights", [count], values)]);
  assert.ok(bytes!.every((byte, i) => byte === (i < count ? i % 251 : 0)));
  staging.destroy();
  allocator.destroy();
});
