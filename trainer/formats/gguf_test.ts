import assert from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { withFolder } from "../../tests/folder.ts";
import { DECODED_TYPES } from "./ggml_types.ts";
import { countParameters, openGguf } from "./gguf.ts";
import type { GgufMetadata } from "./gguf_values.ts";
import { encodeGguf, type GgufTensorSource, writeGguf } from "./gguf_writer.ts";
import { encodeTensor } from "./encode_tensor_testing.ts";

const STRICT = { sanitizeOps: true, sanitizeResources: true };

const SAMPLE: GgufMetadata = new Map([
  ["general.architecture", { type: "string", value: "qwen3" }],
  ["u8", { type: "uint8", value: 255 }],
  ["i8", { type: "int8", value: -128 }],
  ["u16", { type: "uint16", value: 65535 }],
  ["i16", { type: "int16", value: -1 }],
  ["u32", { type: "uint32", value: 4294967295 }],
  ["i32", { type: "int32", value: -2147483648 }],
  ["u64", { type: "uint64", value: 1n << 63n }],
  ["i64", { type: "int64", value: -1n }],
  ["f32", { type: "float32", value: 0.5 }],
  ["f64", { type: "float64", value: 0.1 }],
  ["yes", { type: "bool", value: true }],
  ["text", { type: "string", value: "\ufeffZürich 日本 \0" }],
  ["texts", { type: "array", item_type: "string", value: ["", "a", "Ġb"] }],
  ["numbers", { type: "array", item_type: "int32", value: Int32Array.of(1, -2, 3) }],
  ["longs", { type: "array", item_type: "uint64", value: BigUint64Array.of(1n, 2n) }],
  ["bools", { type: "array", item_type: "bool", value: Uint8Array.of(0, 1) }],
  ["empty", { type: "array", item_type: "float32", value: new Float32Array(0) }],
]);

function tensorOf(name: string, type: GgufTensorSource["type"], shape: number[]): GgufTensorSource {
  const count = shape.reduce((a, b) => a * b);
  const values = Float32Array.from({ length: count }, (_, i) => Math.sin(i + name.length));
  return { name, type, shape, pieces: () => [encodeTensor(type, values)] };
}

Deno.test({
  name: "the tiny agent's header reads as its README has it",
  ...STRICT,
  async fn() {
    using file = await openGguf(await fixturePath("models/tiny-agent-f16.gguf"));
    assert.equal(file.version, 3);
    assert.equal(file.getString("general.architecture"), "qwen3");
    assert.equal(file.getUint("qwen3.block_count"), 4);
    assert.equal(file.getUint("qwen3.attention.head_count_kv"), 2);
    assert.equal(file.getFloat("qwen3.rope.freq_base"), 10_000);
    assert.equal(file.getBool("tokenizer.ggml.add_bos_token"), false);
    assert.equal(file.getStrings("tokenizer.ggml.tokens").length, 1024);
    assert.equal(file.tensors.size, 47);
    assert.equal(countParameters(file), 3_410_688);
    assert.deepEqual(file.tensor("blk.0.attn_q.weight").shape, [512, 256]);
    assert.deepEqual(file.tensor("blk.0.ffn_down.weight").shape, [256, 512]);
    const types = (name: string) => [...file.tensors.values()].filter(({ type }) => type === name).length;
    assert.deepEqual([types("F16"), types("F32")], [30, 17]);
  },
});

Deno.test({
  name: "getters name the file, the key and the actual type",
  ...STRICT,
  async fn() {
    using file = await openGguf(await fixturePath("models/tiny-agent-f16.gguf"));
    const refuses = (run: () => unknown, ...words: string[]) => {
      assert.throws(run, (error: Error) => {
        assert.ok(error instanceof ServiceError && error.code === "format_invalid");
        for (const word of ["tiny-agent-f16.gguf", ...words]) {
          assert.ok(error.message.includes(word), error.message);
        }
        return true;
      });
    };
    refuses(() => file.getUint("qwen3.missing"), "qwen3.missing", "missing");
    assert.equal(file.getUint("qwen3.missing", 7), 7);
    refuses(() => file.getUint("general.architecture", 7), "general.architecture", "whole number", "qwen3");
    refuses(() => file.getUint("qwen3.rope.freq_base"), "float32");
    refuses(() => file.getFloat("general.architecture"), "a number");
    refuses(() => file.getBool("qwen3.block_count"), "truth value");
    refuses(() => file.getString("qwen3.block_count"), "a string");
    refuses(() => file.getStrings("tokenizer.ggml.token_type"), "array of strings", "int32");
    refuses(() => file.getNumbers("tokenizer.ggml.tokens"), "array of numbers");
    refuses(() => file.tensor("blk.9.attn_q.weight"), "blk.9.attn_q.weight");
  },
});

/** Shapes of complete blocks of every type. */
const SHAPES = [[3, 256], [7, 1, 512], [256], [2, 768]];

Deno.test({
  name: "written files can be read, in version 2 as well",
  ...STRICT,
  fn: () =>
    withFolder(async (directory) => {
      const path = `${directory}/all.gguf`;
      const tensors = DECODED_TYPES.map((type, i) => tensorOf(`t${type}`, type, SHAPES[i % SHAPES.length]!));
      await writeGguf(path, { metadata: SAMPLE, tensors });
      for (const version of [3, 2]) {
        const bytes = await Deno.readFile(path);
        bytes[4] = version;
        await Deno.writeFile(path, bytes);
        using file = await openGguf(path);
        assert.equal(file.version, version);
        assert.deepEqual(file.metadata, SAMPLE);
        for (const source of tensors) {
          const { name, type, shape } = source;
          const [whole] = source.pieces() as Uint8Array[];
          const { offset, ...facts } = file.tensor(name);
          assert.deepEqual(facts, { name, type, shape, bytes: whole!.length });
          assert.equal(offset % 32, 0);
          assert.deepEqual(await file.readTensor(name), whole);
          const end = new Uint8Array(whole!.length - 2);
          await file.readTensorPart(name, 2, end);
          assert.deepEqual(end, whole!.subarray(2));
        }
        const all = await Promise.all(tensors.map(({ name }) => file.readFloats(name)));
        const counts = tensors.map(({ shape }) => shape.reduce((a, b) => a * b));
        assert.deepEqual(all.map((values) => values.length), counts);
      }
    }),
});

Deno.test({
  name: "a known type that is not decoded is listed and refused on reading",
  ...STRICT,
  fn: () =>
    withFolder(async (directory) => {
      const path = `${directory}/iq4.gguf`;
      // The 34 bytes of Q8_0 for a row of 32 could also hold one block of IQ4_NL (18 bytes).
      const pieces = await Array.fromAsync(
        encodeGguf({ metadata: new Map(), tensors: [tensorOf("w", "Q8_0", [1, 32])] }),
      );
      const bytes = new Uint8Array(await new Blob(pieces as Uint8Array<ArrayBuffer>[]).arrayBuffer());
      const type_at = 24 + 8 + 1 + 4 + 16;
      assert.equal(bytes[type_at], 8);
      bytes[type_at] = 20;
      await Deno.writeFile(path, bytes);
      using file = await openGguf(path);
      assert.equal(file.tensor("w").type, "IQ4_NL");
      assert.equal(file.tensor("w").bytes, 18);
      await assert.rejects(
        file.readTensor("w"),
        RegExp(`w is of type IQ4_NL; only ${DECODED_TYPES.join(", ")} can be read`),
      );
    }),
});

Deno.test({
  name: "an absent file and a folder are refused",
  ...STRICT,
  async fn() {
    await assert.rejects(openGguf("/nowhere/model.gguf"), { code: "path_not_found" });
    await assert.rejects(openGguf("/tmp"), { code: "path_not_found", message: /not a regular file/ });
  },
});
