import assert from "node:assert/strict";
import { openGpu } from "./device.ts";
import { defineKernel, type WgslPart } from "./kernel.ts";
import { Recorder } from "./recorder.ts";
import { Allocator } from "./tensor.ts";
import { gpuTest } from "./gpu_testing.ts";

const head: WgslPart = {
  file: "head.wgsl",
  text: `struct Params { value: u32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> x: array<u32>;
`,
};

const body = (line: string): WgslPart => ({
  file: "body.wgsl",
  text: `@compute @workgroup_size(1)
fn main() {
  ${line}
}`,
});

gpuTest("a shader that does not compile is reported by file and line when the host reads", async () => {
  // A separate device, because it stays unusable after a kernel that does not compile.
  const gpu = await openGpu({ device: "auto", webgpu: "auto" });
  const recorder = new Recorder(gpu), allocator = new Allocator(gpu.device);
  const spec = { params: { value: "u32" }, inputs: [], outputs: ["x"] } as const;
  const good = defineKernel({ ...spec, name: "good", wgsl: [head, body("x[0] = params.value;")] });
  const bad = defineKernel({ ...spec, name: "bad", wgsl: [head, body("x[0] = params.values;")] });
  const x = allocator.create("test", [1], "u32");
  try {
    recorder.dispatch(good, { value: 3 }, { x }, [1]);
    const [bytes] = await recorder.submitAndRead([x]);
    assert.equal(new Uint32Array(bytes!)[0], 3);
    await assert.rejects(async () => {
      recorder.dispatch(bad, { value: 4 }, { x }, [1]);
      await recorder.submitAndRead([x]);
    }, {
      name: "ServiceError",
      code: "internal",
      message: /^Cannot compile kernel bad at body\.wgsl:3:\d+: /,
    });
  } finally {
    recorder.destroy();
    allocator.destroy();
    gpu.device.destroy();
  }
});
