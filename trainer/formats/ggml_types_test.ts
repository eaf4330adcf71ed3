import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import fc from "fast-check";
import { fixturePath } from "../../tests/fixture.ts";
import { float32FromBfloat16, float32FromFloat16 } from "../../core/float16.ts";
import { WEIGHT_TYPES } from "../../kernels/weights/table.ts";
import { DECODED_TYPES, decodeTensor, ggmlType, weightTypeName } from "./ggml_types.ts";
import { openGguf } from "./gguf.ts";
import { encodeTensor } from "./encode_tensor_testing.ts";

Deno.test("Q8_0 of the F16 values has the bytes of a file that llama.cpp's quantiser confirmed", async () => {
  using halves = await openGguf(await fixturePath("models/tiny-agent-f16.gguf"));
  using eighths = await openGguf(await fixturePath("models/tiny-agent-q8_0.gguf"));
  let compared = 0;
  for (const { name, type } of halves.tensors.values()) {
    if (type !== "F16") continue;
    assert.equal(eighths.tensor(name).type, "Q8_0");
    const encoded = encodeTensor("Q8_0", await halves.readFloats(name));
    assert.ok(Buffer.from(encoded).equals(await eighths.readTensor(name)), name);
    compared++;
  }
  assert.equal(compared, 30);
});

Deno.test("every type of weights is one of GGUF, with its blocks", () => {
  for (const name of DECODED_TYPES) {
    const { block_values, block_bytes } = ggmlType(name), type = WEIGHT_TYPES[weightTypeName(name)];
    assert.deepEqual([type.block_values, type.block_bytes], [block_values, block_bytes], name);
  }
});

Deno.test("a Q8_0 block is its scale times its bytes", () => {
  const values = new Float32Array(64);
  values.set([127, -127, 2.5, -2.5, 0.4]);
  values[40] = 12.7;
  const bytes = encodeTensor("Q8_0", values);
  assert.equal(bytes.length, 68);
  // The first block has scale 1: halves round away from zero.
  assert.deepEqual([...new Int8Array(bytes.buffer, 2, 5)], [127, -127, 3, -3, 0]);
  const back = decodeTensor("Q8_0", bytes);
  assert.deepEqual([...back.subarray(0, 5)], [127, -127, 3, -3, 0]);
  assert.ok(Math.abs(back[40]! - 12.7) < 0.01);
});

Deno.test("a block of zeros stays zeros", () => {
  assert.deepEqual(decodeTensor("Q8_0", encodeTensor("Q8_0", new Float32Array(32))), new Float32Array(32));
});

Deno.test("half-precision values are those of IEEE 754", () => {
  const table: [number, number][] = [
    [0x0000, 0],
    [0x8000, -0],
    [0x3c00, 1],
    [0xc000, -2],
    [0x0001, 2 ** -24],
    [0x03ff, 1023 * 2 ** -24],
    [0x7bff, 65504],
    [0x7c00, Infinity],
  ];
  for (const [bits, value] of table) {
    assert.deepEqual(float32FromFloat16(new Uint8Array(Uint16Array.of(bits).buffer)), Float32Array.of(value));
    assert.deepEqual(
      encodeTensor("F16", Float32Array.of(value)),
      new Uint8Array(Uint16Array.of(bits).buffer),
    );
  }
  // 1 + 2⁻¹¹ is halfway: the even neighbour is 1.
  assert.deepEqual(encodeTensor("F16", Float32Array.of(1 + 2 ** -11)), Uint8Array.of(0x00, 0x3c));
});

Deno.test("bfloat16 is the upper half of a float, rounded to even", () => {
  const cases: [number, number][] = [[1, 0x3f80], [1 + 2 ** -8, 0x3f80], [1 + 3 * 2 ** -8, 0x3f82], [
    -0,
    0x8000,
  ], [
    NaN,
    0x7fc0,
  ], [3.4e38, 0x7f80]];
  for (const [value, bits] of cases) {
    assert.deepEqual(
      [...new Uint16Array(encodeTensor("BF16", Float32Array.of(value)).buffer)],
      [bits],
      String(value),
    );
  }
  assert.deepEqual(
    float32FromBfloat16(Uint8Array.of(0xcd, 0x3d, 0x80, 0x3f)),
    Float32Array.of(0.10009765625, 1),
  );
});

Deno.test("decoding reads misaligned bytes", () => {
  fc.assert(
    fc.property(
      fc.float32Array({ minLength: 256, maxLength: 256, noNaN: true, noDefaultInfinity: true }),
      fc.nat(7),
      (values, shift) => {
        for (const type of DECODED_TYPES) {
          const bytes = encodeTensor(type, values), askew = new Uint8Array(bytes.length + shift);
          askew.set(bytes, shift);
          assert.deepEqual(decodeTensor(type, askew.subarray(shift)), decodeTensor(type, bytes));
        }
        assert.deepEqual(decodeTensor("F32", encodeTensor("F32", values)), values);
      },
    ),
  );
});
