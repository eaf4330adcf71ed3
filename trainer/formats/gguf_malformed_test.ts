import assert from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import { isDecodedType } from "./ggml_types.ts";
import { openGguf } from "./gguf.ts";
import {
  type GgufMetadata,
  MAX_ARRAY_ITEMS,
  MAX_KEY_BYTES,
  MAX_METADATA_ENTRIES,
  MAX_STRING_BYTES,
  MAX_TENSORS,
} from "./gguf_values.ts";
import { mutateGguf } from "./gguf_mutations_testing.ts";
import { encodeGguf } from "./gguf_writer.ts";
import { encodeTensor } from "./encode_tensor_testing.ts";

const STRICT = { sanitizeOps: true, sanitizeResources: true };

/** Builds little-endian bytes part by part; a text is preceded by its 64-bit length. */
class Bytes {
  readonly parts: number[] = [];

  text(value: string): this {
    const bytes = new TextEncoder().encode(value);
    return this.u64(bytes.length).raw(bytes);
  }

  u32(...values: number[]): this {
    return this.raw(new Uint8Array(Uint32Array.from(values).buffer));
  }

  u64(...values: (number | bigint)[]): this {
    return this.raw(new Uint8Array(BigUint64Array.from(values, BigInt).buffer));
  }

  raw(bytes: Iterable<number>): this {
    for (const byte of bytes) this.parts.push(byte);
    return this;
  }

  /** Pads to a multiple of `alignment`. */
  pad(alignment = 32): this {
    while (this.parts.length % alignment !== 0) this.parts.push(0);
    return this;
  }
}

const U32 = 4, BOOL = 7, STRING = 8, ARRAY = 9, F32_TENSOR = 0;

function start(
  { version = 3, tensors = 0, entries = 0 }: {
    version?: number;
    tensors?: number | bigint;
    entries?: number | bigint;
  },
): Bytes {
  return new Bytes().raw(new TextEncoder().encode("GGUF")).u32(version).u64(tensors, entries);
}

/** A file with one metadata entry, whose type and value `value` appends. */
function entry(key: string, value: (bytes: Bytes) => Bytes): Bytes {
  return value(start({ entries: 1 }).text(key)).pad();
}

/** A file with tensors of one f32 dimension unless specified otherwise, and `data` bytes after the header. */
function tensors(
  listed: { name?: string; dims?: (number | bigint)[]; type?: number; offset?: number | bigint }[],
  data = 32,
): Bytes {
  const bytes = start({ tensors: listed.length });
  for (const { name = "w", dims = [8], type = F32_TENSOR, offset = 0 } of listed) {
    bytes.text(name).u32(dims.length).u64(...dims).u32(type).u64(offset);
  }
  return bytes.pad().raw(new Uint8Array(data));
}

async function withFile(
  run: (open: (bytes: Iterable<number>) => Promise<void>) => Promise<void>,
): Promise<void> {
  const path = await Deno.makeTempFile({ suffix: ".gguf" });
  try {
    await run(async (bytes) => {
      await Deno.writeFile(path, Uint8Array.from(bytes));
      (await openGguf(path)).close();
    });
  } finally {
    await Deno.remove(path);
  }
}

const alignment = (bytes: Bytes) => bytes.pad().parts;

const MALFORMED: [name: string, bytes: Iterable<number>, reason: RegExp][] = [
  ["empty", [], /not a GGUF file.*byte 0/],
  ["bad magic", start({}).parts.with(0, 0x67), /not a GGUF file/],
  ["version 0", start({ version: 0 }).parts, /GGUF version 0.*byte 4/],
  ["version 1", start({ version: 1 }).parts, /GGUF version 1/],
  ["version 4", start({ version: 4 }).parts, /GGUF version 4/],
  ["big endian", start({ version: 3 << 24 }).parts, /big-endian/],
  ["2^62 tensors", start({ tensors: 1n << 62n }).parts, /number of tensors of \d+ is beyond every file/],
  ["-1 tensors", start({ tensors: (1n << 64n) - 1n }).parts, /number of tensors/],
  ["too many tensors", start({ tensors: MAX_TENSORS + 1 }).parts, /more than the limit of 65536/],
  ["more tensors than bytes", start({ tensors: 9 }).parts, /number of tensors is 9, but only/],
  ["2^62 entries", start({ entries: 1n << 62n }).parts, /metadata entries/],
  ["too many entries", start({ entries: MAX_METADATA_ENTRIES + 1 }).parts, /more than the limit/],
  ["more entries than bytes", start({ entries: 2 }).parts, /number of metadata entries is 2, but only/],
  [
    "key of 2^40 bytes",
    start({ entries: 1 }).u64(1n << 40n).pad(64).parts,
    /length of metadata key 0 is 1099511627776/,
  ],
  ["key of 2^63 bytes", start({ entries: 1 }).u64(1n << 63n).pad(64).parts, /length of metadata key 0/],
  ["key beyond the end", start({ entries: 1 }).u64(100).pad(64).parts, /key 0 is 100, but only/],
  [
    "key of 65536 bytes",
    start({ entries: 1 }).text("k".repeat(MAX_KEY_BYTES + 1)).pad().parts,
    /limit of 65535/,
  ],
  [
    "string of 2^40 bytes",
    entry("a", (b) => b.u32(STRING).u64(1n << 40n)).parts,
    /value of a is 1099511627776/,
  ],
  [
    "string beyond the limit",
    entry("a", (b) => b.u32(STRING).u64(MAX_STRING_BYTES + 1)).parts,
    /limit of 16777216/,
  ],
  ["array of 2^40", entry("a", (b) => b.u32(ARRAY, U32).u64(1n << 40n)).parts, /items of a is 1099511627776/],
  [
    "array beyond the limit",
    entry("a", (b) => b.u32(ARRAY, U32).u64(MAX_ARRAY_ITEMS + 1)).parts,
    /limit of 4194304/,
  ],
  [
    "array beyond the end",
    entry("a", (b) => b.u32(ARRAY, U32).u64(1000)).parts,
    /items of a is 1000, but only/,
  ],
  [
    "strings beyond the end",
    entry("a", (b) => b.u32(ARRAY, STRING).u64(1000)).parts,
    /items of a is 1000, but only/,
  ],
  ["nested arrays", entry("a", (b) => b.u32(ARRAY, ARRAY).u64(1).u32(ARRAY).u64(1)).parts, /nested arrays/],
  ["value type 99", entry("a", (b) => b.u32(99).u64(0)).parts, /a has the unknown value type 99/],
  ["item type 99", entry("a", (b) => b.u32(ARRAY, 99).u64(0)).parts, /a has the unknown item type 99/],
  ["bool 5", entry("a", (b) => b.u32(BOOL).raw([5])).parts, /a holds 5 where 0 or 1/],
  [
    "bools 0 1 2",
    entry("a", (b) => b.u32(ARRAY, BOOL).u64(3).raw([0, 1, 2])).parts,
    /a holds 2 where 0 or 1/,
  ],
  [
    "key that is no UTF-8",
    start({ entries: 1 }).u64(1).raw([0xff]).u32(BOOL).raw([1]).pad().parts,
    /key 0 is not valid UTF-8/,
  ],
  [
    "value that is no UTF-8",
    entry("a", (b) => b.u32(STRING).u64(2).raw([0xc3, 0x28])).parts,
    /value of a is not valid UTF-8/,
  ],
  [
    "key twice",
    start({ entries: 2 }).text("a").u32(BOOL).raw([1]).text("a").u32(BOOL).raw([0]).pad().parts,
    /key a occurs twice/,
  ],
  ["alignment 0", entry("general.alignment", (b) => b.u32(U32, 0)).parts, /general.alignment/],
  ["alignment 3", entry("general.alignment", (b) => b.u32(U32, 3)).parts, /general.alignment.*power of two/],
  ["alignment 2^20", entry("general.alignment", (b) => b.u32(U32, 1 << 20)).parts, /general.alignment/],
  [
    "alignment as string",
    entry("general.alignment", (b) => b.u32(STRING).text("32")).parts,
    /general.alignment.*string/,
  ],
  [
    "alignment as bool",
    alignment(start({ entries: 1 }).text("general.alignment").u32(BOOL).raw([1])),
    /general.alignment/,
  ],
  [
    "name of 65 bytes",
    tensors([{ name: "n".repeat(65) }]).parts,
    /name of tensor 0 is 65, more than the limit of 64/,
  ],
  ["no dimensions", tensors([{ dims: [] }]).parts, /w has 0 dimensions/],
  ["5 dimensions", tensors([{ dims: [1, 1, 1, 1, 1] }]).parts, /w has 5 dimensions/],
  ["dimension 0", tensors([{ dims: [8, 0] }]).parts, /w has a dimension of 0/],
  ["dimension -1", tensors([{ dims: [(1n << 64n) - 1n] }]).parts, /dimension 0 of the tensor w/],
  [
    "dimensions that overflow",
    tensors([{ dims: [2 ** 31, 2 ** 31, 2 ** 31] }]).parts,
    /w of shape.*larger than the file/,
  ],
  ["dimensions that overflow to 0", tensors([{ dims: [2 ** 32, 2 ** 32] }]).parts, /larger than the file/],
  ["type 250", tensors([{ type: 250 }]).parts, /w has the unknown type 250/],
  ["half a block", tensors([{ type: 8, dims: [31] }]).parts, /rows of the tensor w have 31 values/],
  ["offset out of the file", tensors([{ offset: 64 }]).parts, /w ends at byte 160, but the file has 96/],
  ["offset 2^50", tensors([{ offset: 2 ** 50 }]).parts, /w begins after the end/],
  ["offset 2^63", tensors([{ offset: 1n << 63n }]).parts, /offset of the tensor w/],
  ["misaligned", tensors([{ offset: 4 }], 64).parts, /w begins at 4 of the data/],
  [
    "overlapping",
    tensors([{ name: "a", dims: [16] }, { name: "b", offset: 32 }], 96).parts,
    /b overlaps the tensor a/,
  ],
  ["at the same place", tensors([{ name: "a" }, { name: "b" }]).parts, /overlaps/],
  ["name twice", tensors([{}, { offset: 32 }], 64).parts, /w occurs twice/],
  ["data short by 1", tensors([{}], 31).parts, /w ends at byte 96, but the file has 95/],
];

Deno.test({
  name: "every kind of malformed file is refused with its reason",
  ...STRICT,
  fn: () =>
    withFile(async (open) => {
      await open(start({}).parts);
      await open(tensors([{ name: "a" }, { name: "b".repeat(64), offset: 32 }], 64).parts);
      for (const [name, bytes, message] of MALFORMED) {
        await assert.rejects(open(bytes), { name: "ServiceError", code: "format_invalid", message }, name);
      }
    }),
});

const METADATA: GgufMetadata = new Map([
  ["general.architecture", { type: "string", value: "qwen3" }],
  ["texts", { type: "array", item_type: "string", value: ["a", "Ġb", ""] }],
  ["numbers", { type: "array", item_type: "int32", value: Int32Array.of(1, 2, 3) }],
  ["long", { type: "uint64", value: 7n }],
  ["yes", { type: "bool", value: true }],
]);

async function smallFile(): Promise<{ bytes: Uint8Array; header_bytes: number }> {
  const values = Float32Array.from({ length: 64 }, (_, i) => i);
  const tensor = (name: string, type: "F32" | "Q8_0" | "F16", shape: number[]) => {
    return { name, type, shape, pieces: () => [encodeTensor(type, values)] };
  };
  const content = {
    metadata: METADATA,
    tensors: [tensor("a", "F32", [2, 32]), tensor("b", "Q8_0", [2, 32]), tensor("c", "F16", [64])],
  };
  const pieces = await Array.fromAsync(encodeGguf(content));
  const bytes = new Uint8Array(await new Blob(pieces as Uint8Array<ArrayBuffer>[]).arrayBuffer());
  return { bytes, header_bytes: pieces[0]!.length };
}

Deno.test({
  name: "a file cut anywhere is refused",
  ...STRICT,
  fn: () =>
    withFile(async (open) => {
      const { bytes, header_bytes } = await smallFile();
      await open(bytes);
      // The last tensor takes 128 bytes, a multiple of the alignment, so the file ends with its data.
      const cuts = [...Array(header_bytes + 40).keys(), bytes.length - 1];
      for (const cut of cuts) {
        await assert.rejects(open(bytes.subarray(0, cut)), { code: "format_invalid" }, `cut at ${cut}`);
      }
    }),
});

Deno.test({
  name: "mutated files are refused or completely readable",
  ...STRICT,
  async fn() {
    const { bytes, header_bytes } = await smallFile();
    const path = await Deno.makeTempFile({ suffix: ".gguf" });
    let refused = 0;
    const total = 2000;
    try {
      for (let seed = 0; seed < total; seed++) {
        const mutant = mutateGguf(bytes, header_bytes, seed);
        await Deno.writeFile(path, mutant);
        try {
          using file = await openGguf(path);
          for (const { name, offset, bytes: length, type } of file.tensors.values()) {
            assert.ok(offset + length <= mutant.length);
            if (!isDecodedType(type)) continue;
            assert.equal((await file.readTensor(name)).length, length);
            await file.readFloats(name);
          }
        } catch (error) {
          if (!(error instanceof ServiceError)) throw new Error(`seed ${seed}`, { cause: error });
          assert.equal(error.code, "format_invalid");
          assert.ok(error.message.includes(path), error.message);
          refused++;
        }
      }
    } finally {
      await Deno.remove(path);
    }
    // Both results must occur, or the mutations test nothing.
    assert.ok(refused > total / 2 && refused < total, `${refused} of ${total} refused`);
  },
});
