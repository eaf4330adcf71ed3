import assert from "node:assert/strict";
import { ServiceError } from "../core/errors.ts";
import { Staging } from "./readback.ts";
import { Allocator, type DType, type Tensor, tensorBytes, view } from "./tensor.ts";
import { gpuTest } from "./gpu_testing.ts";

const tensor = (shape: number[], dtype: DType = "f32", offset_bytes = 0) =>
  ({ shape, dtype, offset_bytes }) as unknown as Tensor;

Deno.test("tensors end at whole words", () => {
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

gpuTest("an allocator counts bytes by component, up and down", ({ device }) => {
  const allocator = new Allocator(device);
  const weights = allocator.create("weights", [3, 5]);
  const pages = [allocator.create("kv", [8], "f16"), allocator.create("kv", [5], "i8")];
  assert.deepEqual(allocator.bytes, { weights: 60, kv: 16 + 8 });
  allocator.free(pages[0]!);
  assert.deepEqual(allocator.bytes, { weights: 60, kv: 8 });
  allocator.free(pages[1]!);
  allocator.free(weights);
  assert.deepEqual(allocator.bytes, { weights: 0, kv: 0 });
  allocator.destroy();
});

gpuTest("a tensor is freed once, and by its allocator", ({ device }) => {
  const allocator = new Allocator(device), other = new Allocator(device);
  const x = allocator.create("weights", [4]);
  assert.throws(() => other.free(x), /a tensor is freed once, by its allocator/);
  allocator.free(x);
  assert.throws(() => allocator.free(x), /a tensor is freed once, by its allocator/);
  assert.equal(allocator.bytes.weights, 0, "the second time counts nothing");
});

gpuTest("a tensor above what the device binds is out of memory, with the numbers", ({ device }) => {
  const allocator = new Allocator(device);
  const limit_bytes = Math.min(device.limits.maxStorageBufferBindingSize, device.limits.maxBufferSize);
  const size_bytes = 4 * (Math.floor(limit_bytes / 4) + 1);
  assert.throws(() => allocator.create("kv", [size_bytes / 4]), (error: unknown) => {
    assert.ok(error instanceof ServiceError);
    assert.equal(error.code, "out_of_memory");
    assert.deepEqual(error.details, { component: "kv", size_bytes, limit_bytes });
    assert.equal(
      error.message,
      `Cannot allocate ${size_bytes} bytes for kv: the device binds at most ${limit_bytes}`,
    );
    return true;
  });
  assert.deepEqual(allocator.bytes, {}, "what was refused is not counted");
});

/** The tensors' bytes by one readback. */
async function readBack(staging: Staging, tensors: readonly Tensor[]): Promise<Uint8Array[]> {
  const encoder = staging.device.createCommandEncoder();
  const offsets = staging.encode(encoder, tensors);
  staging.device.queue.submit([encoder.finish()]);
  return (await staging.read(tensors, offsets)).map((bytes) => new Uint8Array(bytes));
}

gpuTest("several tensors come back in order, then more of them than before", async ({ device }) => {
  const allocator = new Allocator(device), staging = new Staging(device);
  const a = allocator.upload("a", [5], Float32Array.of(1, 2, 3, 4, 5));
  const b = allocator.upload("b", [6], Uint8Array.of(9, 8, 7, 6, 5, 4));
  const tensors = [b, a, view(a, [2], 3)];
  const [first, second, third] = await readBack(staging, tensors);
  assert.deepEqual([...first!], [9, 8, 7, 6, 5, 4, 0, 0]);
  assert.deepEqual([...new Float32Array(second!.buffer)], [1, 2, 3, 4, 5]);
  assert.deepEqual([...new Float32Array(third!.buffer)], [4, 5]);
  assert.deepEqual(await readBack(staging, []), []);
  const before = staging.bytes;
  const long = Uint32Array.from({ length: 50_000 }, (_, i) => i);
  const [words, again] = await readBack(staging, [allocator.upload("c", [50_000], long), a]);
  assert.deepEqual(new Uint32Array(words!.buffer), long);
  assert.deepEqual(again, second);
  assert.ok(before < 200_000 && staging.bytes >= 200_000 + 20, "staging has grown");
  staging.destroy();
  assert.equal(staging.bytes, 0);
  allocator.destroy();
});

gpuTest("values of more than a piece, and of no whole words, arrive", async ({ device }) => {
  const allocator = new Allocator(device), staging = new Staging(device);
  const count = (16 << 20) + 5;
  const values = Uint8Array.from({ length: count }, (_, i) => i % 251);
  const [bytes] = await readBack(staging, [allocator.upload("weights", [count], values)]);
  assert.ok(bytes!.every((byte, i) => byte === (i < count ? i % 251 : 0)));
  staging.destroy();
  allocator.destroy();
});
