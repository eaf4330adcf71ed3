import assert from "node:assert/strict";
import { fixturePath, readFixtureJson } from "../../tests/fixture.ts";
import { duplicateKey } from "./json_keys.ts";
import {
  floatsOf,
  floatTensor,
  MAX_SAFETENSORS_HEADER_BYTES,
  readSafetensors,
  type SafetensorsTensor,
  writeSafetensors,
} from "./safetensors.ts";

const STRICT = { sanitizeOps: true, sanitizeResources: true };

function fileOf(header: string, data: number, declared = header.length): Uint8Array {
  const bytes = new Uint8Array(8 + header.length + data);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(declared), true);
  bytes.set(new TextEncoder().encode(header), 8);
  return bytes;
}

Deno.test({
  name: "golden gradients read with the norms that PyTorch printed",
  ...STRICT,
  async fn() {
    const path = await fixturePath("models/tiny-agent/golden-lora/gradients-f16.safetensors");
    const content = await readSafetensors(path);
    const { gradients } = (await readFixtureJson("models/tiny-agent/golden-lora.json")).f16;
    assert.equal(content.tensors.size, 56);
    for (const [name, golden] of Object.entries<{ shape: number[]; l2: number }>(gradients)) {
      const values = floatsOf(path, content, { name, shape: golden.shape });
      const l2 = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
      // Each element is rounded by at most 2^-15 of the tensor's root mean square.
      assert.ok(Math.abs(l2 - golden.l2) <= 2 ** -15 * golden.l2, name);
    }
    assert.throws(() => floatsOf(path, content, { name: "blk.0.attn_q.C" }), /blk.0.attn_q.C is missing/);
    assert.throws(
      () => floatsOf(path, content, { name: "blk.0.attn_q.A", shape: [1, 2] }),
      /not F32 \[1,2\]/,
    );
  },
});

Deno.test({
  name: "tensors are read as they were written",
  ...STRICT,
  async fn() {
    const directory = await Deno.makeTempDir();
    try {
      const tensors = new Map<string, SafetensorsTensor>([
        ["weights", floatTensor([2, 3], Float32Array.of(1, -0, NaN, Infinity, 1e-40, 2))],
        ["counters", { dtype: "U8", shape: [3], data: Uint8Array.of(1, 2, 255) }],
        ["empty", { dtype: "I64", shape: [0, 4], data: new Uint8Array(0) }],
        ["ünï", floatTensor([], Float32Array.of(7))],
      ]);
      const metadata = new Map([["format", "pt"], ["step", "3"]]);
      await writeSafetensors(`${directory}/a.safetensors`, { metadata, tensors });
      const back = await readSafetensors(`${directory}/a.safetensors`);
      assert.deepEqual(back.metadata, metadata);
      assert.deepEqual([...back.tensors.keys()].sort(), [...tensors.keys()].sort());
      for (const [name, { dtype, shape, data }] of tensors) {
        assert.deepEqual(back.tensors.get(name), { dtype, shape, data: Uint8Array.from(data) });
      }
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  },
});

Deno.test({
  name: "a header that does not agree with the file is refused with its reason",
  ...STRICT,
  async fn() {
    const entry = (begin: number, end: number, shape = "[1]") =>
      `{"dtype":"F32","shape":${shape},"data_offsets":[${begin},${end}]}`;
    const cases: [Uint8Array, RegExp][] = [
      [new Uint8Array(7), /too few/],
      [fileOf("{}", 0, 3), /longer than the file/],
      [fileOf("{}", 0, 2 ** 52), /longer than the file/],
      [fileOf("{]", 0), /not JSON/],
      [fileOf("[]", 0), /not a JSON object/],
      [fileOf("{}", 1), /take 0 bytes, but 1 follow/],
      [fileOf(`{"a":${entry(0, 4)}}`, 3), /take 4 bytes, but 3 follow/],
      [fileOf(`{"a":${entry(4, 8)}}`, 8), /begins at 4, not at 0/],
      [fileOf(`{"a":${entry(0, 4)},"b":${entry(2, 6)}}`, 6), /b begins at 2, not at 4/],
      [fileOf(`{"a":${entry(0, 4)},"a":${entry(0, 4)}}`, 4), /a occurs twice/],
      [fileOf(`{"a":${entry(0, 4, "[2]")}}`, 4), /takes 8 bytes, but its data_offsets hold 4/],
      [fileOf(`{"a":${entry(0, 4, "[-1]")}}`, 4), /no shape/],
      [fileOf(`{"a":${entry(0, 4, "[0.5]")}}`, 4), /no shape/],
      [fileOf(`{"a":${entry(0, 4, "[9007199254740992]")}}`, 4), /no shape/],
      [fileOf(`{"a":{"dtype":"toString","shape":[],"data_offsets":[0,0]}}`, 0), /unknown type toString/],
      [fileOf(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0]}}`, 0), /data_offsets/],
      [fileOf(`{"a":1}`, 0), /not described/],
      [fileOf(`{"__metadata__":{"a":1}}`, 0), /no string/],
      [fileOf(`{"__metadata__":1}`, 0), /not an object/],
    ];
    const path = await Deno.makeTempFile();
    try {
      for (const [bytes, reason] of cases) {
        await Deno.writeFile(path, bytes);
        await assert.rejects(readSafetensors(path), { code: "format_invalid", message: reason });
      }
      // A sparse file takes no room: its header would fit, but exceeds the limit.
      await Deno.writeFile(path, fileOf("{}", 0, MAX_SAFETENSORS_HEADER_BYTES + 1));
      await Deno.truncate(path, 2 * MAX_SAFETENSORS_HEADER_BYTES);
      await assert.rejects(readSafetensors(path), {
        code: "format_invalid",
        message: /longer than the file or the limit/,
      });
    } finally {
      await Deno.remove(path);
    }
  },
});

Deno.test("duplicate keys are found in every object, escapes and strings set aside", () => {
  assert.equal(duplicateKey(`{"a":{"b":1},"c":[{"b":"\\"b\\":"},{"b":2}],"b":"a"}`), null);
  assert.equal(duplicateKey(`{"x":[{"b":1,"\\u0062":2}]}`), "b");
  assert.equal(duplicateKey(`{"a" : 1, "a": 2}`), "a");
});
