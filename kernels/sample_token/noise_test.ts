import assert from "node:assert/strict";
import { pcg4d, Rng } from "../../core/random.ts";
import type { Gpu } from "../device.ts";
import { defineKernel } from "../kernel.ts";
import gumbelWgsl from "../shared/gumbel.wgsl" with { type: "text" };
import pcg4dWgsl from "../shared/pcg4d.wgsl" with { type: "text" };
import { expectClose, filled, gpuTest, run } from "../gpu_testing.ts";
import { gumbelReference } from "./sample_token_reference.ts";

/** A kernel around the shared functions: four words in; the mixed words and their variates out. */
const noise = defineKernel({
  name: "noise",
  wgsl: [{ file: "shared/pcg4d.wgsl", text: pcg4dWgsl }, { file: "shared/gumbel.wgsl", text: gumbelWgsl }, {
    file: "noise",
    text: `
      struct Params { count: u32 }
      @group(0) @binding(0) var<uniform> params: Params;
      @group(0) @binding(1) var<storage, read> words: array<vec4<u32>>;
      @group(0) @binding(2) var<storage, read_write> mixed: array<vec4<u32>>;
      @group(0) @binding(3) var<storage, read_write> variates: array<vec4<f32>>;
      @compute @workgroup_size(64)
      fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x >= params.count { return; }
        mixed[id.x] = pcg4d(words[id.x]);
        variates[id.x] = gumbel(words[id.x]);
      }`,
  }],
  params: { count: "u32" },
  inputs: ["words"],
  outputs: ["mixed", "variates"],
});

async function runNoise(gpu: Gpu, words: Uint32Array) {
  const count = words.length / 4;
  return await run(gpu, {
    words: [words, [count, 4], "u32"],
    mixed: [new Uint32Array(4 * count), [count, 4], "u32"],
    variates: filled(NaN, count, 4),
  }, (recorder, t) => recorder.dispatch(noise, { count }, t, [Math.ceil(count / 64)]));
}

/** The extremes, both sides of the start of the series, and of where an f32 can no longer tell v from 1. */
const extremes = [
  0,
  1,
  2,
  2 ** 22 - 1,
  2 ** 22,
  2 ** 22 + 1,
  2 ** 31,
  2 ** 32 - 257,
  2 ** 32 - 129,
  2 ** 32 - 1,
];

gpuTest("pcg4d on the device is pcg4d on the host", async (gpu) => {
  const rng = new Rng([1, 2]);
  const words = Uint32Array.from({ length: 4000 }, (_, i) => extremes[i] ?? rng.word());
  const { mixed } = await runNoise(gpu, words);
  for (let i = 0; i < words.length; i += 4) {
    const [a, b, c, d] = words.subarray(i, i + 4);
    assert.deepEqual([...mixed.slice(i, i + 4)], pcg4d(a!, b!, c!, d!));
  }
});

gpuTest("Gumbel variates agree with f64 from the smallest to the largest bits", async (gpu) => {
  const rng = new Rng([3, 4]);
  // Powers of two in between: half of all random words would lie above 2^31 and never be small.
  const words = Uint32Array.from(
    { length: 40_000 },
    (_, i) => extremes[i] ?? rng.word() >>> (i % 32),
  );
  const { variates } = await runNoise(gpu, words);
  const expectNear = (from: number, to: number, absolute: number) => {
    const places = [...words.keys()].filter((i) => words[i]! >= from && words[i]! < to);
    const actual = places.map((i) => variates[i]!), expected = places.map((i) => gumbelReference(words[i]!));
    expectClose(actual, expected, { relative: 0, absolute }, `gumbel of bits from ${from}`);
  };
  // The series is accurate to v²/3, and a logarithm of up to 23 to 3 ulps.
  expectNear(0, 2 ** 22, 1e-5);
  // WGSL allows an error of 2^−21 for a logarithm near 1: 5e-4 of E = 2^−10, and the same for the variate. Towards v =
  // 1 the step of f32 grows relative to 1 − v; below 2^−16 of it nothing is checked.
  expectNear(2 ** 22, 2 ** 32 - 2 ** 16, 6e-4);
});

gpuTest("no bits give a variate outside those of the smallest and largest bits", async (gpu) => {
  const words = Uint32Array.from({ length: 1 << 16 }, (_, i) => i < 2 ** 15 ? i : 2 ** 32 - 2 ** 16 + i);
  const { variates } = await runNoise(gpu, words);
  // −log(2^−33) and −log(−log(2^−24)): an id 26 below the best can never be sampled.
  assert.ok(variates.every((v) => v < 22.9 && v > -2.82), "between −2.82 and 22.9");
});
