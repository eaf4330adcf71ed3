import assert from "node:assert/strict";
import { crc32 } from "node:zlib";
import { withFolder } from "../tests/folder.ts";
import { type ZipEntry, zipParts, zipSize } from "./zip.ts";

const utf8 = (text: string) => new TextEncoder().encode(text);

/** Writes an archive; an entry without contents is a hole of its size. */
async function writeZip(
  path: string,
  entries: readonly ZipEntry[],
  contents: readonly (Uint8Array | null)[],
) {
  const parts = zipParts(entries);
  using file = await Deno.open(path, { write: true, create: true });
  for (const part of parts) {
    const bytes = part instanceof Uint8Array ? part : contents[part.entry]!;
    if (bytes) { for (let at = 0; at < bytes.length;) at += await file.write(bytes.subarray(at)); }
    else await file.seek((part as { size_bytes: number }).size_bytes, Deno.SeekMode.Current);
  }
  return zipSize(parts);
}

/** What Python's `zipfile` reads: name, size, CRC, time and, with `read`, the text. */
async function pythonReads(path: string, { read }: { read: boolean }): Promise<unknown[][]> {
  const script = `
import json, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as z:
    ${read ? "assert z.testzip() is None" : "pass"}
    print(json.dumps([[i.filename, i.file_size, i.CRC, list(i.date_time), i.header_offset,
        ${read ? "z.read(i).decode()" : "None"}] for i in z.infolist()]))`;
  const { stdout, stderr, success } = await new Deno.Command("python3", { args: ["-c", script, path] })
    .output();
  assert.ok(success, new TextDecoder().decode(stderr));
  return JSON.parse(new TextDecoder().decode(stdout));
}

const has_python = await new Deno.Command("python3", { args: ["-V"] }).output().then(() => true, () => false);
const name = (text: string) => has_python ? text : `${text} (skipped: there is no python3)`;

Deno.test({ name: name("another program reads an archive"), ignore: !has_python }, async () => {
  await withFolder(async (root) => {
    const texts = ["", "one\n", "zwei ☃"], path = `${root}/a.zip`;
    const entries = texts.map((text, n) => ({
      name: n === 2 ? "ordner/ß.txt" : `${n}.txt`,
      size_bytes: utf8(text).length,
      crc32: crc32(utf8(text)),
      modified_ms: Date.UTC(2026, 1, 3, 4, 5, 7),
    }));
    const size = await writeZip(path, entries, texts.map(utf8));
    assert.equal((await Deno.stat(path)).size, size);
    const read = await pythonReads(path, { read: true });
    // Times have steps of two seconds.
    const date = [2026, 2, 3, 4, 5, 6];
    assert.deepEqual(read.map(([name, size, crc, date, _, text]) => [name, size, crc, date, text]), [
      ["0.txt", 0, 0, date, ""],
      ["1.txt", 4, crc32(utf8("one\n")), date, "one\n"],
      ["ordner/ß.txt", 8, crc32(utf8("zwei ☃")), date, "zwei ☃"],
    ]);
    assert.equal(await writeZip(`${root}/empty.zip`, [], []), 22);
    assert.deepEqual(await pythonReads(`${root}/empty.zip`, { read: true }), []);
  });
});

Deno.test({ name: name("sizes and offsets may exceed 32 bits"), ignore: !has_python }, async () => {
  await withFolder(async (root) => {
    const path = `${root}/a.zip`;
    for (const size_bytes of [0xfffffffe, 0xffffffff, 0x100000000]) {
      const entries = ["a", "b"].map((name) => ({ name, size_bytes, crc32: 1, modified_ms: 0 }));
      const size = await writeZip(path, entries, [null, null]);
      // 30 bytes and the name; then, for zip64, an extra field of 4 and twice 8 bytes: readers of streams need it here.
      const [header] = zipParts(entries) as [Uint8Array];
      assert.equal(header.length, size_bytes < 0xffffffff ? 31 : 51);
      assert.equal((await Deno.stat(path)).size, size);
      const [a, b] = await pythonReads(path, { read: false });
      assert.deepEqual([a![1], b![1], a![4]], [size_bytes, size_bytes, 0]);
      assert.ok(b![4] as number > size_bytes);
      assert.deepEqual(a![3], [1980, 1, 1, 0, 0, 0]);
      await Deno.remove(path);
    }
  });
});

Deno.test({ name: name("an archive may have more than 65,535 files"), ignore: !has_python }, async () => {
  await withFolder(async (root) => {
    for (const count of [65_534, 65_535]) {
      const entries = Array.from(
        { length: count },
        (_, n) => ({ name: String(n), size_bytes: 0, crc32: 0, modified_ms: 0 }),
      );
      const bytes = zipParts(entries).filter((part) => part instanceof Uint8Array);
      await Deno.writeFile(`${root}/a.zip`, await new Blob(bytes as BlobPart[]).bytes());
      assert.equal((await pythonReads(`${root}/a.zip`, { read: false })).length, count);
    }
  });
});
