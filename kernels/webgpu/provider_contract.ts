/** What every WebGPU provider gives the kernels. */

import assert from "node:assert/strict";
import { type Gpu, isOutOfMemory, openGpu } from "../device.ts";
import { compiledKernel, compileFailure, defineKernel } from "../kernel.ts";
import { Recorder } from "../recorder.ts";
import { Allocator } from "../tensor.ts";
import type { WebGpuProvider } from "./provider.ts";

const double = defineKernel({
  name: "double",
  wgsl: `
    struct Params { count: u32 }
    @group(0) @binding(0) var<uniform> params: Params;
    @group(0) @binding(1) var<storage, read> x: array<f32>;
    @group(0) @binding(2) var<storage, read_write> y: array<f32>;
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
      if id.x < params.count { y[id.x] = 2.0 * x[id.x]; }
    }`,
  params: { count: "u32" },
  inputs: ["x"],
  outputs: ["y"],
});

/** A kernel whose third line is wrong. */
const wrong = () =>
  defineKernel({
    name: "wrong",
    wgsl: [{ file: "head.wgsl", text: "// a comment" }, { file: "body.wgsl", text: "\nfn main( { }\n" }],
    params: {},
    inputs: [],
    outputs: [],
  });

/**
 * The contract as tests of one provider.
 *
 * @param test Declares a test, or skips it.
 * @param provider Called by tests only.
 */
export function testProviderContract(
  test: (name: string, body: () => Promise<void>) => void,
  provider: WebGpuProvider,
): void {
  const gpuTest = (name: string, body: (gpu: Gpu) => Promise<void>) =>
    test(`${provider.name}: ${name}`, async () => {
      const gpu = await openGpu({ device: "auto", webgpu: provider.name }, provider);
      try {
        await body(gpu);
      } finally {
        gpu.device.destroy();
      }
    });

  gpuTest("opens a device with the facts and the subgroups of its adapter", ({ facts, subgroup_size }) => {
    assert.deepEqual([facts.webgpu, facts.backend], [provider.name, provider.backend()]);
    assert.notEqual(facts.name, "unknown");
    if (facts.features.includes("subgroups")) assert.ok([4, 8, 16, 32, 64].includes(subgroup_size));
    else assert.equal(subgroup_size, 0);
    return Promise.resolve();
  });

  gpuTest("computes and reads back", async (gpu) => {
    const allocator = new Allocator(gpu.device), recorder = new Recorder(gpu, allocator);
    const x = allocator.upload("test", [65], Float32Array.from({ length: 65 }, (_, i) => i));
    const y = allocator.create("test", [65]);
    recorder.dispatch(double, { count: 65 }, { x, y }, [2]);
    const [bytes] = await recorder.submitAndRead([y]);
    assert.deepEqual([...new Float32Array(bytes!)].slice(0, 65), Array.from({ length: 65 }, (_, i) => 2 * i));
  });

  gpuTest("says in which file and line a shader is wrong", async (gpu) => {
    compiledKernel(gpu.device, wrong());
    await new Recorder(gpu).submitAndWait().catch(() => {});
    assert.match(compileFailure(gpu.device)!.message, /^Cannot compile kernel wrong at body\.wgsl:2:\d+: /);
  });

  gpuTest("reports a command that it refuses, to a scope or as an event", async ({ device }) => {
    device.pushErrorScope("validation");
    device.createBuffer({ size: 4, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.MAP_WRITE });
    const scoped = await device.popErrorScope();
    assert.ok(scoped && scoped.message.length > 0 && !isOutOfMemory(scoped));
    const { promise, resolve } = Promise.withResolvers<GPUError>();
    device.addEventListener("uncapturederror", (event) => {
      event.preventDefault();
      resolve((event as GPUUncapturedErrorEvent).error);
    });
    device.createBuffer({ size: 4, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.MAP_WRITE });
    assert.ok(!isOutOfMemory(await promise));
  });

  gpuTest("tells a destroyed device, and ends the reads that wait for it", async ({ device }) => {
    const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
    const read = device.createBuffer({ size: 4, usage }).mapAsync(GPUMapMode.READ);
    device.destroy();
    await read.catch(() => {});
    assert.equal((await device.lost).reason, "destroyed");
  });
}
