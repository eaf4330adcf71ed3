import assert from "node:assert/strict";
import type { Gpu } from "./device.ts";
import { defineKernel } from "./kernel.ts";
import { Recorder } from "./recorder.ts";
import { fill, gatherRows } from "./rows/rows.ts";
import { roundUp, ShapeError } from "./shape.ts";
import { Allocator, view } from "./tensor.ts";
import { gpuTest } from "./gpu_testing.ts";

/** Bytes for the parameters of one submit. */
const PARAMS_BYTES = 1 << 20;
/** The fewest bytes of a dispatch. */
const MIN_PARAMS_BYTES = 16;

/** x ← 1664525 · x + value: a dispatch that runs twice, never or out of order changes the result. */
const mix = defineKernel({
  name: "mix",
  wgsl: `
    struct Params { value: u32 }
    @group(0) @binding(0) var<uniform> params: Params;
    @group(0) @binding(1) var<storage, read_write> x: array<u32>;
    @compute @workgroup_size(1)
    fn main() { x[0] = x[0] * 1664525u + params.value; }`,
  params: { value: "u32" },
  inputs: [],
  outputs: ["x"],
});

/** Writes two outputs. */
const BOTH = `
  struct Params { value: u32 }
  @group(0) @binding(0) var<uniform> params: Params;
  @group(0) @binding(1) var<storage, read> z: array<u32>;
  @group(0) @binding(2) var<storage, read_write> x: array<u32>;
  @group(0) @binding(3) var<storage, read_write> y: array<u32>;
  @compute @workgroup_size(1)
  fn main() {
    x[0] = z[0] + params.value;
    y[0] = z[0];
  }`;

const echo = defineKernel({
  name: "echo",
  wgsl: `
    struct Params { a: f32, b: u32, c: i32, d: f32, e: i32, f: u32 }
    @group(0) @binding(0) var<uniform> params: Params;
    @group(0) @binding(1) var<storage, read_write> out: array<u32>;
    @compute @workgroup_size(1)
    fn main() {
      out[0] = bitcast<u32>(params.a);
      out[1] = params.b;
      out[2] = bitcast<u32>(params.c);
      out[3] = bitcast<u32>(params.d);
      out[4] = bitcast<u32>(params.e);
      out[5] = params.f;
    }`,
  params: { a: "f32", b: "u32", c: "i32", d: "f32", e: "i32", f: "u32" },
  inputs: [],
  outputs: ["out"],
});

/** A recorder and an allocator for one test. */
async function withRecorder(
  gpu: Gpu,
  body: (recorder: Recorder, allocator: Allocator) => Promise<void>,
): Promise<void> {
  const recorder = new Recorder(gpu), allocator = new Allocator(gpu.device);
  try {
    await body(recorder, allocator);
  } finally {
    recorder.destroy();
    allocator.destroy();
  }
}

gpuTest("parameters of all three types arrive", (gpu) =>
  withRecorder(gpu, async (recorder, allocator) => {
    const out = allocator.create("test", [6], "u32");
    const params = { a: -0.15625, b: 0xfffffffe, c: -7, d: 3e38, e: -(2 ** 31), f: 12 };
    recorder.dispatch(echo, params, { out }, [1]);
    const [bytes] = await recorder.submitAndRead([out]);
    const data = new DataView(bytes!);
    assert.equal(data.getFloat32(0, true), params.a);
    assert.equal(data.getUint32(4, true), params.b);
    assert.equal(data.getInt32(8, true), params.c);
    assert.equal(data.getFloat32(12, true), Math.fround(params.d));
    assert.equal(data.getInt32(16, true), params.e);
    assert.equal(data.getUint32(20, true), params.f);
  }));

gpuTest(
  "dispatches beyond the parameters of one submit continue in another, in order",
  (gpu) =>
    withRecorder(gpu, async (recorder, allocator) => {
      const align = gpu.device.limits.minUniformBufferOffsetAlignment;
      const fit = PARAMS_BYTES / roundUp(MIN_PARAMS_BYTES, align);
      const x = allocator.create("test", [1], "u32");
      let expected = 0;
      for (const [count, submits] of [[fit, 1], [fit + 1, 2]] as const) {
        const before = { ...recorder.counters };
        for (let value = 1; value <= count; value++) {
          recorder.dispatch(mix, { value }, { x }, [1]);
          expected = (Math.imul(expected, 1664525) + value) >>> 0;
        }
        const [bytes] = await recorder.submitAndRead([x]);
        assert.equal(new Uint32Array(bytes!)[0], expected, `${count} dispatches`);
        assert.equal(recorder.counters.submits - before.submits, submits, `${count} dispatches`);
        assert.equal(recorder.counters.dispatches - before.dispatches, count);
        assert.equal(recorder.counters.readbacks - before.readbacks, 1);
      }
    }),
);

gpuTest(
  "dispatches recorded before a failure are gone after discard",
  (gpu) =>
    withRecorder(gpu, async (recorder, allocator) => {
      const x = allocator.upload("test", [4], Float32Array.of(1, 2, 3, 4));
      const index = allocator.create("test", [3], "u32");
      assert.throws(() => {
        fill(recorder, x, 7);
        gatherRows(recorder, { x, y: x, index });
      }, ShapeError);
      recorder.discard();
      recorder.dispatch(mix, { value: 5 }, { x: index }, [1]);
      const [values, words] = await recorder.submitAndRead([x, index]);
      assert.deepEqual([...new Float32Array(values!)], [1, 2, 3, 4]);
      assert.equal(new Uint32Array(words!)[0], 5, "what is recorded afterwards has its own parameters");
      assert.equal(recorder.counters.dispatches, 1);
    }),
);

gpuTest(
  "a grid above the device's limit on an axis is refused, an empty one records nothing",
  (gpu) =>
    withRecorder(gpu, async (recorder, allocator) => {
      const x = allocator.create("test", [1], "u32");
      const limit = gpu.device.limits.maxComputeWorkgroupsPerDimension;
      for (const grid of [[limit + 1], [1, limit + 1], [1, 1, limit + 1]] as const) {
        assert.throws(
          () => recorder.dispatch(mix, { value: 1 }, { x }, grid),
          { message: new RegExp(`mix: grid ${grid} within ${limit} per axis`) },
        );
      }
      recorder.dispatch(mix, { value: 1 }, { x }, [4, 0]);
      const [bytes] = await recorder.submitAndRead([x]);
      assert.equal(new Uint32Array(bytes!)[0], 0);
      assert.equal(recorder.counters.dispatches, 0);
    }),
);

gpuTest("an operand that is missing is named", (gpu) =>
  withRecorder(gpu, (recorder) => {
    const none = {} as { x: Parameters<typeof fill>[1] };
    assert.throws(() => recorder.dispatch(mix, { value: 1 }, none, [1]), /mix got its operand x/);
    return Promise.resolve();
  }));

gpuTest("outputs in one buffer are bound to their own bytes, which do not overlap", async (gpu) => {
  await withRecorder(gpu, (recorder, allocator) => {
    const both = defineKernel({ ...mix, name: "both", inputs: ["z"], outputs: ["x", "y"], wgsl: BOTH });
    const whole = allocator.create("test", [256], "u32"), z = allocator.create("test", [64], "u32");
    const x = view(whole, [64]), y = view(whole, [128], 64), bound: GPUBufferBinding[][] = [];
    const { createBindGroup } = GPUDevice.prototype;
    gpu.device.createBindGroup = (descriptor) => {
      const [, ...operands] = [...descriptor.entries];
      bound.push(operands.map(({ resource }) => resource as GPUBufferBinding));
      return createBindGroup.call(gpu.device, descriptor);
    };
    try {
      recorder.dispatch(both, { value: 1 }, { x, y, z: view(z, [8]) }, [1]);
      recorder.dispatch(both, { value: 1 }, { x, y: view(whole, [100], 64), z }, [1]);
    } finally {
      Reflect.deleteProperty(gpu.device, "createBindGroup");
    }
    const sizes = bound.map((operands) => operands.map(({ offset, size }) => [offset, size]));
    // An input, and what is alone in its buffer, reaches the buffer's end.
    assert.deepEqual(sizes, [[[0, 256], [0, 256], [256, 512]], [[0, 256], [0, 256], [256, 400]]]);
    return Promise.resolve();
  });
});

gpuTest("a new number of rows costs no new bind group", async (gpu) => {
  await withRecorder(gpu, async (recorder, allocator) => {
    const x = allocator.create("test", [64, 4]), y = allocator.create("test", [64, 4]);
    const index = allocator.upload("test", [64], Uint32Array.from({ length: 64 }, (_, i) => 63 - i));
    allocator.write(x, Float32Array.from({ length: 256 }, (_, i) => i));
    const rows = (count: number) => ({
      x,
      y: view(y, [count, 4]),
      index: view(index, [count]),
    });
    let made = 0;
    const { createBindGroup } = GPUDevice.prototype;
    gpu.device.createBindGroup = (descriptor) => {
      made++;
      return createBindGroup.call(gpu.device, descriptor);
    };
    try {
      for (const count of [64, 3, 17]) gatherRows(recorder, rows(count));
      assert.equal(made, 1);
      // Another place of a tensor is another binding.
      gatherRows(recorder, { x, y: view(y, [16, 4], 128), index: view(index, [16]) });
      assert.equal(made, 2);
    } finally {
      Reflect.deleteProperty(gpu.device, "createBindGroup");
    }
    const [bytes] = await recorder.submitAndRead([y]);
    const values = new Float32Array(bytes!);
    assert.equal(values[0], 252);
    // Row 32 was written again, with the first row that is gathered.
    assert.equal(values[32 * 4], 252);
  });
});

gpuTest(
  "what is repeatable is recorded again with its operands and parameters, and runs its body once",
  async (gpu) => {
    await withRecorder(gpu, async (recorder, allocator) => {
      const x = allocator.create("test", [1], "u32"), expected = { x: 0, bodies: 1 };
      const step = (value: number) => expected.x = (Math.imul(expected.x, 1664525) + value) >>> 0;
      let bodies = 0;
      const twice = recorder.repeatable(() => {
        bodies++;
        recorder.dispatch(mix, { value: 3 + bodies }, { x }, [1]);
        recorder.dispatch(mix, { value: 5 + bodies }, { x }, [1]);
      });
      // What is recorded after a submit has its parameters at the beginning: here at another place than before.
      for (const before of [[1], [2], [], [7, 8, 9]]) {
        for (const value of before) recorder.dispatch(mix, { value }, { x }, [1]);
        twice();
        for (const value of [...before, 4, 6]) step(value);
        if (before.length === 0) recorder.submit();
      }
      const [bytes] = await recorder.submitAndRead([x]);
      assert.deepEqual({ x: new Uint32Array(bytes!)[0], bodies }, expected);
      assert.equal(recorder.counters.dispatches, 13);
    });
  },
);

gpuTest(
  "a body runs again when buffers were destroyed, or when a part of it has been submitted",
  async (gpu) => {
    await withRecorder(gpu, async (recorder, allocator) => {
      const x = allocator.create("test", [1], "u32");
      let bodies = 0;
      const submitting = recorder.repeatable(() => {
        recorder.dispatch(mix, { value: ++bodies }, { x }, [1]);
        if (bodies === 1) recorder.submit();
      });
      for (let i = 0; i < 3; i++) submitting();
      assert.equal(bodies, 2);
      recorder.forgetAll();
      submitting();
      assert.equal(bodies, 3);
      const [bytes] = await recorder.submitAndRead([x]);
      // 1, 2, 2, 3
      const expected = [1, 2, 2, 3].reduce((sum, value) => (Math.imul(sum, 1664525) + value) >>> 0, 0);
      assert.equal(new Uint32Array(bytes!)[0], expected);
    });
  },
);

gpuTest(
  "a body runs again when it forgot or discarded something, or when something was discarded since",
  async (gpu) => {
    await withRecorder(gpu, (recorder, allocator) => {
      const x = allocator.create("test", [1], "u32");
      for (const change of [() => recorder.forgetAll(), () => recorder.discard()]) {
        let bodies = 0;
        const changing = recorder.repeatable(() => {
          recorder.dispatch(mix, { value: 1 }, { x }, [1]);
          if (++bodies === 1) change();
        });
        for (let i = 0; i < 3; i++) changing();
        assert.equal(bodies, 2);
        change();
        changing();
        assert.equal(bodies, 3);
      }
      recorder.discard();
      return Promise.resolve();
    });
  },
);

gpuTest("what is repeatable may repeat something itself", async (gpu) => {
  await withRecorder(gpu, async (recorder, allocator) => {
    const x = allocator.create("test", [1], "u32"), values: number[] = [];
    const record = (value: number) => recorder.dispatch(mix, { value }, { x }, [1]);
    let bodies = 0;
    const inner = recorder.repeatable(() => record(5));
    const outer = recorder.repeatable(() => {
      bodies++;
      record(3);
      inner();
      inner();
      record(4);
    });
    // The last time the parameters do not fit one submit with those before.
    const fit = PARAMS_BYTES / roundUp(MIN_PARAMS_BYTES, gpu.device.limits.minUniformBufferOffsetAlignment);
    for (const before of [0, 2, 1, fit - 2]) {
      for (let value = 7; value < 7 + before; value++) {
        record(value);
        values.push(value);
      }
      if (before === 1) recorder.forgetAll();
      outer();
      values.push(3, 5, 5, 4);
    }
    const [bytes] = await recorder.submitAndRead([x]);
    const expected = values.reduce((sum, value) => (Math.imul(sum, 1664525) + value) >>> 0, 0);
    assert.equal(new Uint32Array(bytes!)[0], expected);
    assert.equal(bodies, 2);
  });
});

gpuTest("repeated dispatches beyond the parameters of one submit continue in another", async (gpu) => {
  await withRecorder(gpu, async (recorder, allocator) => {
    const fit = PARAMS_BYTES / roundUp(MIN_PARAMS_BYTES, gpu.device.limits.minUniformBufferOffsetAlignment);
    const x = allocator.create("test", [1], "u32"), third = Math.floor(fit / 3);
    const body = recorder.repeatable(() => {
      for (let value = 1; value <= third; value++) recorder.dispatch(mix, { value }, { x }, [1]);
    });
    let expected = 0;
    for (let i = 0; i < 4; i++) {
      body();
      for (let value = 1; value <= third; value++) expected = (Math.imul(expected, 1664525) + value) >>> 0;
    }
    const [bytes] = await recorder.submitAndRead([x]);
    assert.equal(new Uint32Array(bytes!)[0], expected);
    assert.equal(recorder.counters.submits, 2);
  });
});
