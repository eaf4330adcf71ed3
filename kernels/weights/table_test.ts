import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { readFixtureJson } from "../../tests/fixture.ts";
import { embedding } from "../embedding/embedding.ts";
import { filled, gpuTest, randomNormal, run } from "../gpu_testing.ts";
import { PlaneArrays } from "./block_words.ts";
import { encodeWeight } from "./encode_testing.ts";
import { createWeight, writeWeight } from "./weight.ts";
import { WEIGHT_TYPE_NAMES, WEIGHT_TYPES, type WeightTypeName } from "./table.ts";
import type { WeightType } from "./weight_type.ts";

/** What tests/golden/weight_goldens.py writes: blocks, and the bits of the values that llama.cpp makes of them. */
interface Golden {
  rows: number;
  columns: number;
  blocks: string;
  values: string;
}

const goldens: Record<string, Golden> = await readFixtureJson("weights/goldens.json");

const bytesOf = (base64: string) => Uint8Array.from(Buffer.from(base64, "base64"));

function readGolden(name: WeightTypeName) {
  const { rows, columns, blocks, values } = goldens[name]!;
  return { rows, columns, blocks: bytesOf(blocks), values: new Float32Array(bytesOf(values).buffer) };
}

/** Compares bits: −0 is not 0. */
function expectSameBits(actual: ArrayLike<number>, expected: Float32Array, name: string): void {
  assert.equal(actual.length, expected.length, name);
  const at = expected.findIndex((value, i) => !Object.is(value, actual[i]));
  if (at >= 0) assert.fail(`${name}: value ${at} is ${actual[at]}, llama.cpp's is ${expected[at]}`);
}

Deno.test("every type of the table but f32 has goldens of llama.cpp", () => {
  assert.deepEqual(Object.keys(goldens).sort(), WEIGHT_TYPE_NAMES.filter((name) => name !== "f32").sort());
});

for (const [name, heads] of [["q8_0", 1], ["q4_0", 1], ["q4_1", 2], ["q5_0", 1], ["q5_1", 2]] as const) {
  Deno.test(`${name} is taken apart into its scales and the bytes after them, for any number of blocks`, () => {
    const type: WeightType = WEIGHT_TYPES[name], { block_bytes } = type, { blocks } = readGolden(name);
    const arrays = new PlaneArrays();
    for (const [first, count] of [[0, 1], [0, 2], [1, 3], [2, 8], [3, 1]] as const) {
      const bytes = blocks.subarray(first * block_bytes, (first + count) * block_bytes);
      const starts = Array.from({ length: count }, (_, i) => i * block_bytes);
      const [values, scales] = type.repack(bytes, arrays);
      const part = (from: number, to: number) =>
        starts.flatMap((start) => [...bytes.subarray(start + from, start + to)]);
      const bytesOfPlane = (plane: ArrayBufferView) =>
        new Uint8Array(plane.buffer as ArrayBuffer, plane.byteOffset, plane.byteLength);
      assert.deepEqual([...bytesOfPlane(values!)], part(2 * heads, block_bytes));
      const halves = new Float16Array(Uint8Array.from(part(0, 2 * heads)).buffer);
      assert.deepEqual([...scales as Float32Array], [...halves]);
    }
  });
}

for (const name of Object.keys(goldens) as WeightTypeName[]) {
  const type: WeightType = WEIGHT_TYPES[name];

  Deno.test(`${name} is decoded to the bits that llama.cpp gives`, () => {
    const { blocks, values } = readGolden(name);
    expectSameBits(type.decode(blocks), values, name);
    // A tensor's bytes need not be aligned in their buffer.
    const askew = new Uint8Array(blocks.length + 1);
    askew.set(blocks, 1);
    expectSameBits(type.decode(askew.subarray(1)), values, `${name}, askew`);
  });

  gpuTest(`the shader of ${name} loads the bits that llama.cpp gives`, async (gpu) => {
    const { rows, columns, blocks, values } = readGolden(name);
    const ids = Array.from({ length: rows }, (_, row) => row);
    const given = { ids: [ids, [rows], "u32"], x: filled(NaN, rows, columns) } as const;
    const { x } = await run(gpu, given, (recorder, t, allocator) => {
      const table = createWeight(allocator, "test", { type: name, shape: [rows, columns] });
      // In pieces, as a file is read; each piece begins at a multiple of 4 bytes.
      const first = Math.ceil(blocks.length / type.block_bytes / 3 / 2) * 2;
      writeWeight(allocator, table, blocks.subarray(0, first * type.block_bytes));
      writeWeight(allocator, table, blocks.subarray(first * type.block_bytes), first);
      embedding(recorder, { ids: t.ids, table, x: t.x });
    });
    expectSameBits(x, values, name);
  });
}

for (const name of WEIGHT_TYPE_NAMES) {
  const { decode, block_values, block_bytes }: WeightType = WEIGHT_TYPES[name];
  const encode = (values: Float32Array) => encodeWeight(name, values);

  Deno.test(`what ${name} encodes is near the values, and blocks of zeros stay zeros`, () => {
    const values = Float32Array.from(randomNormal(3, 2048, 0.5)), bytes = encode(values);
    assert.equal(bytes.length, 2048 / block_values * block_bytes);
    const back = decode(bytes);
    // Bits of a number within the span of a part, about 6 deviations with their scales' rounding; f16 has 11, bf16 8.
    const bits = {
      ...{ f32: 23, f16: 10, bf16: 7, q4_0: 3.6, q4_1: 4.6, q5_0: 4.6, q5_1: 5.6, q8_0: 7.5 },
      ...{ q4_k: 3.6, q5_k: 4.6, q6_k: 5.5 },
    }[name];
    const worst = values.reduce((most, value, i) => Math.max(most, Math.abs(back[i]! - value)), 0);
    assert.ok(worst <= 6 * 2 ** -bits, `an error of ${worst}`);
    assert.deepEqual(decode(encode(new Float32Array(256))).map(Math.abs), new Float32Array(256));
  });
}
