import { rejects } from "node:assert/strict";
import { openGguf } from "./gguf.ts";
import { MAX_ARRAY_ITEMS, MAX_HEADER_BYTES, NUMBER_TYPES } from "./gguf_values.ts";

/** The bytes of a metadata entry up to the values of an array of float64. */
function entryHead(key: string, items: number): Uint8Array {
  const name = new TextEncoder().encode(key);
  const bytes = new Uint8Array(8 + name.length + 4 + 4 + 8), view = new DataView(bytes.buffer);
  view.setBigUint64(0, BigInt(name.length), true);
  bytes.set(name, 8);
  view.setUint32(8 + name.length, 9, true);
  view.setUint32(12 + name.length, NUMBER_TYPES.float64.id, true);
  view.setBigUint64(16 + name.length, BigInt(items), true);
  return bytes;
}

Deno.test("a header above its limit is refused even if every part is within its own limit", async () => {
  const path = await Deno.makeTempFile({ suffix: ".gguf" });
  const entries = MAX_HEADER_BYTES / (8 * MAX_ARRAY_ITEMS) + 1;
  try {
    {
      using file = await Deno.open(path, { write: true });
      const preamble = new DataView(new ArrayBuffer(24));
      preamble.setUint32(0, 0x46554747, true);
      preamble.setUint32(4, 3, true);
      preamble.setBigUint64(16, BigInt(entries), true);
      await file.write(new Uint8Array(preamble.buffer));
      // The values are a hole in the file, so nothing is written for them.
      for (let i = 0; i < entries; i++) {
        await file.write(entryHead(`array_${i}`, MAX_ARRAY_ITEMS));
        await file.seek(8 * MAX_ARRAY_ITEMS, Deno.SeekMode.Current);
      }
      await file.truncate(await file.seek(1024, Deno.SeekMode.Current));
    }
    await rejects(openGguf(path), {
      code: "format_invalid",
      message: new RegExp(`the header is longer than the limit of ${MAX_HEADER_BYTES} bytes`),
    });
  } finally {
    await Deno.remove(path);
  }
});
