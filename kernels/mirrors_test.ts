import assert from "node:assert/strict";
import type { Gpu } from "./device.ts";
import { gpuTest } from "./gpu_testing.ts";
import { defineKernel, type TextureUse } from "./kernel.ts";
import { findMirror, fitsTexture, isWorthCopying } from "./mirrors.ts";
import { Recorder } from "./recorder.ts";
import { Allocator, type Tensor, view } from "./tensor.ts";
import { MOST_ROWS, ROW_TEXELS, withTextures } from "./textures.ts";

const needsSoftware = ({ facts }: Gpu) => facts.software ? null : "a GPU reads buffers";

/** y ← 2 · x, a number to a thread, with x read through a texture. */
const double = kernelOf("double", "y[id.x] = 2.0 * x[id.x];", ["x"], { x: "kept" });

/** y ← x at the places `at`. */
const gather = kernelOf("gather", "y[id.x] = x[u32(at[id.x])];", ["x", "at"], { x: "kept" });

/** y ← y from its end, in place. */
const reverse = kernelOf("reverse", "y[id.x] = y[params.count - 1u - id.x];", [], { y: 1e9 });

/** y ← count + x, stored in a texture too. */
const add = kernelOf("add", "y[id.x] = f32(params.count) + x[id.x];", ["x"], { y: "stored" });

function kernelOf<I extends string>(
  name: string,
  body: string,
  inputs: I[],
  textures: Partial<Record<I | "y", TextureUse>>,
) {
  const declared = inputs.map((input, i) =>
    `@group(0) @binding(${i + 1}) var<storage, read> ${input}: array<f32>;`
  );
  return defineKernel({
    name,
    wgsl: `
      struct Params { count: u32 }
      @group(0) @binding(0) var<uniform> params: Params;
      ${declared.join("\n")}
      @group(0) @binding(${inputs.length + 1}) var<storage, read_write> y: array<f32>;
      @compute @workgroup_size(1)
      fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        ${body}
      }`,
    params: { count: "u32" },
    inputs,
    outputs: ["y"],
    textures,
  });
}

/** Runs `body` with a recorder, and reads tensors of f32. */
async function withRecorder(
  gpu: Gpu,
  body: (recorder: Recorder, allocator: Allocator, read: (x: Tensor) => Promise<number[]>) => Promise<void>,
): Promise<void> {
  const allocator = new Allocator(gpu.device), recorder = new Recorder(gpu);
  try {
    await body(
      recorder,
      allocator,
      async (x) => [...new Float32Array((await recorder.submitAndRead([x]))[0]!)],
    );
  } finally {
    recorder.destroy();
    allocator.destroy();
  }
}

gpuTest("a texture follows its tensor: writes of the host, dispatches and copies", async (gpu) => {
  await withRecorder(gpu, async (recorder, allocator, read) => {
    const x = allocator.upload("test", [3], Float32Array.of(1, 2, 3)), y = allocator.create("test", [3]);
    const doubled = async () => {
      recorder.dispatch(double, { count: 3 }, { x, y }, [3]);
      return await read(y);
    };
    assert.deepEqual(await doubled(), [2, 4, 6]);
    allocator.write(x, Float32Array.of(4, 5, 6));
    assert.deepEqual(await doubled(), [8, 10, 12]);
    // In one submit: read, written, read again.
    recorder.dispatch(double, { count: 3 }, { x, y }, [3]);
    recorder.dispatch(double, { count: 3 }, { x: y, y: x }, [3]);
    assert.deepEqual(await doubled(), [32, 40, 48]);
    recorder.copy(allocator.upload("test", [2], Float32Array.of(7, 8)), x);
    assert.deepEqual(await doubled(), [14, 16, 48]);
    const lacking = { y } as { x: Tensor; y: Tensor };
    assert.throws(() => recorder.dispatch(double, { count: 3 }, lacking, [3]), /double got its operand x/);
  });
}, needsSoftware);

gpuTest("a texture holds several rows of texels, and a part of a buffer", async (gpu) => {
  await withRecorder(gpu, async (recorder, allocator, read) => {
    const count = 2 * ROW_TEXELS + 5, values = Float32Array.from({ length: count }, (_, i) => i);
    const x = allocator.upload("test", [count], values), y = allocator.create("test", [count]);
    recorder.dispatch(double, { count }, { x, y }, [count]);
    assert.deepEqual(await read(y), [...values].map((value) => 2 * value));
    const part = view(x, [3], ROW_TEXELS - 1), three = allocator.create("test", [3]);
    recorder.dispatch(double, { count: 3 }, { x: part, y: three }, [3]);
    assert.deepEqual(await read(three), [2 * ROW_TEXELS - 2, 2 * ROW_TEXELS, 2 * ROW_TEXELS + 2]);
  });
}, needsSoftware);

gpuTest("a texture holds more than a block of rows", async (gpu) => {
  await withRecorder(gpu, async (recorder, allocator, read) => {
    const block = MOST_ROWS * ROW_TEXELS, count = 2 * block + 2 * ROW_TEXELS + 3;
    const x = allocator.create("test", [count]), y = allocator.create("test", [6]);
    const places = [block - 1, block, 2 * block - 1, 2 * block, 2 * block + 2 * ROW_TEXELS, count - 1];
    places.forEach((place, i) => allocator.write(view(x, [1], place), Float32Array.of(i + 1)));
    const at = allocator.upload("test", [6], Float32Array.from(places));
    recorder.dispatch(gather, { count: 6 }, { x, at, y }, [6]);
    assert.deepEqual(await read(y), [1, 2, 3, 4, 5, 6]);
  });
}, needsSoftware);

gpuTest(
  "what a dispatch stores in a texture too is read there, beside what was there before",
  async (gpu) => {
    await withRecorder(gpu, async (recorder, allocator, read) => {
      const x = allocator.upload("test", [3], Float32Array.of(1, 2, 3)), y = allocator.create("test", [3]);
      const middle = allocator.upload("test", [3], Float32Array.of(70, 80, 90));
      // Two of three numbers are stored; the texture already has to have the third.
      recorder.dispatch(add, { count: 10 }, { x, y: middle }, [2]);
      recorder.dispatch(double, { count: 3 }, { x: middle, y }, [3]);
      assert.deepEqual(await read(y), [22, 24, 180]);
      assert.deepEqual(await read(middle), [11, 12, 90]);
    });
  },
  needsSoftware,
);

gpuTest("a dispatch reads an output as it was before", async (gpu) => {
  await withRecorder(gpu, async (recorder, allocator, read) => {
    const y = allocator.upload("test", [5], Float32Array.of(1, 2, 3, 4, 5));
    recorder.dispatch(reverse, { count: 5 }, { y }, [5]);
    assert.deepEqual(await read(y), [5, 4, 3, 2, 1]);
    recorder.dispatch(reverse, { count: 5 }, { y }, [5]);
    assert.deepEqual(await read(y), [1, 2, 3, 4, 5]);
  });
}, needsSoftware);

gpuTest("textures go with their buffer, and a larger tensor gets a larger one", (gpu) => {
  const allocator = new Allocator(gpu.device), scope = allocator.scope();
  const x = scope.create("test", [8]),
    format = { format: "r32float", texel_bytes: 4 } as const;
  const replaced: GPUTexture[] = [], made = { device: gpu.device, replaced };
  // The second one has room for the rest of the buffer.
  const small = findMirror(made, view(x, [4]), format), large = findMirror(made, view(x, [5]), format);
  assert.deepEqual([small.bytes, large.bytes], [16, 32]);
  assert.equal(findMirror(made, view(x, [4]), format), large);
  assert.deepEqual(replaced, [small.texture]);
  const destroyed = new Set<GPUTexture>();
  for (const { texture } of [small, large]) {
    const original = texture.destroy.bind(texture);
    texture.destroy = () => {
      destroyed.add(texture);
      return original();
    };
  }
  scope.destroy();
  assert.deepEqual([...destroyed], [large.texture]);
  allocator.destroy();
}, needsSoftware);

gpuTest("a texture that a larger one replaced is destroyed when what uses it is submitted", async (gpu) => {
  await withRecorder(gpu, async (recorder, allocator, read) => {
    const x = allocator.upload("test", [4], Float32Array.of(1, 2, 3, 4));
    const y = allocator.create("test", [4]), z = allocator.create("test", [4]);
    const two = view(x, [2]), format = { format: "r32float", texel_bytes: 4 } as const;
    const { texture } = findMirror({ device: gpu.device, replaced: [] }, two, format);
    const original = texture.destroy.bind(texture);
    let submits = -1;
    texture.destroy = () => {
      submits = recorder.counters.submits;
      return original();
    };
    recorder.dispatch(double, { count: 2 }, { x: two, y }, [2]);
    recorder.dispatch(double, { count: 4 }, { x, y: z }, [4]);
    assert.equal(submits, -1);
    assert.deepEqual(await read(z), [2, 4, 6, 8]);
    assert.deepEqual(await read(y), [2, 4, 0, 0]);
    assert.equal(submits, 1);
  });
}, needsSoftware);

gpuTest("what is repeatable runs its body again when its texture was replaced and destroyed", async (gpu) => {
  await withRecorder(gpu, async (recorder, allocator, read) => {
    const x = allocator.upload("test", [4], Float32Array.of(1, 2, 3, 4)), y = allocator.create("test", [4]);
    let bodies = 0;
    const half = recorder.repeatable(() => {
      bodies++;
      recorder.dispatch(double, { count: 2 }, { x: view(x, [2]), y }, [2]);
    });
    half();
    recorder.dispatch(double, { count: 4 }, { x, y: allocator.create("test", [4]) }, [4]);
    half();
    assert.equal(bodies, 1);
    assert.deepEqual(await read(y), [2, 4, 0, 0]);
    allocator.write(x, Float32Array.of(5, 6));
    half();
    assert.deepEqual(await read(y), [10, 12, 0, 0]);
    assert.equal(bodies, 2);
  });
}, needsSoftware);

Deno.test("few numbers are not copied, nor a tensor that no texture holds", () => {
  const of = (offset_bytes: number, ...shape: number[]) =>
    ({ shape, dtype: "f32", offset_bytes }) as unknown as Tensor;
  assert.deepEqual([isWorthCopying(of(0, 32, 255), 1), isWorthCopying(of(0, 32, 256), 1)], [false, true]);
  assert.ok(isWorthCopying(of(0, 1, 256), 32));
  const format = { format: "rgba32float", texel_bytes: 16 } as const;
  // 31 blocks of 260 texels.
  assert.ok(fitsTexture(of(32, 4 * 31, 256 * 8192), format));
  assert.ok(!fitsTexture(of(0, 4 * 31, 256 * 8192 + 1), format));
  assert.ok(!fitsTexture(of(8, 4), format));
});

Deno.test("an input becomes a texture where it is declared and where it is indexed", () => {
  const text = `// x[n] is no index
alias Two = vec2<u32>;
@group(0) @binding(1) var<storage, read> x: array<Two>; // the rows
fn f(i: u32) -> u32 { return x[x[i].x].y + max[x.x[0]]; }`;
  const made = withTextures(text, { inputs: new Map([["x", false]]), outputs: new Map() });
  assert.equal(
    made.text,
    `
alias Two = vec2<u32>;
@group(0) @binding(1) var x: texture_storage_2d<rg32uint, read>; fn x_at(i: u32) -> Two ` +
      `{ return textureLoad(x, vec2<u32>((i & 255u) + (i >> 21u) * 264u, (i >> 8u) & 8191u)).xy; } 
fn f(i: u32) -> u32 { return x_at(x_at(i).x).y + max[x.x[0]]; }`,
  );
  assert.deepEqual(made.formats.get("x"), { format: "rg32uint", texel_bytes: 8 });
  assert.throws(
    () => withTextures(text, { inputs: new Map([["y", false]]), outputs: new Map() }),
    /an operand y/,
  );
  const matrix = "var<storage, read> m: array<mat2x2<f32>>;";
  assert.throws(
    () => withTextures(matrix, { inputs: new Map([["m", false]]), outputs: new Map() }),
    /elements of m/,
  );
});

Deno.test("a stored output that is changed in another way is refused", () => {
  for (const change of ["y[i] += 1.0;", "y[i].x = 1.0;", "y[i]=1.0;"]) {
    const text = `var<storage, read_write> y: array<f32>;\nfn f(i: u32) { ${change} }`;
    const outputs = new Map([["y", { use: "stored", binding: 3 } as const]]);
    assert.throws(
      () => withTextures(text, { inputs: new Map(), outputs }),
      /y is stored by "y\[i\] = v;" alone/,
    );
  }
});

Deno.test("a stored output is put into both, and one that is read as before keeps its stores", () => {
  const text =
    "@group(0) @binding(2) var<storage, read_write> y: array<f32>;\nfn f(i: u32) { y[i + 1u] = y[i] * 2.0; }";
  const stored = withTextures(text, {
    inputs: new Map(),
    outputs: new Map([["y", { use: "stored", binding: 3 }]]),
  });
  assert.match(stored.text, /@binding\(3\) var y_texture: texture_storage_2d<r32float, write>;/);
  assert.match(
    stored.text,
    /y\[i\] = v; textureStore\(y_texture, .*, vec4<f32>\(v, f32\(\), f32\(\), f32\(\)\)\);/,
  );
  assert.match(stored.text, /\{ y_put\(i \+ 1u, y\[i\] \* 2\.0\); \}$/);
  const before = withTextures(text, {
    inputs: new Map(),
    outputs: new Map([["y", { use: "before", binding: 3 }]]),
  });
  assert.match(before.text, /@binding\(3\) var y_texture: texture_storage_2d<r32float, read>;/);
  assert.match(before.text, /\{ y\[i \+ 1u\] = y_at\(i\) \* 2\.0; \}$/);
});
