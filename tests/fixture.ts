/**
 * Reads files in `fixtures/`. A file that compression makes much smaller is stored as `<name>.gz` or `<name>.br` (Brotli,
 * which `scripts/pack_fixture.ts` writes) and requested as `<name>`. Of a quantised model only what comes before its
 * weights is stored, as `<name>.head.gz`: the weights are quantised from those of another fixture, and the hash in the
 * manifest is that of the complete file. A file whose bytes another fixture has in another order is stored as
 * `<name>.delta.gz`.
 */

import { createHash } from "node:crypto";
import { fileURLToPath } from "node:url";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { writeFileAtomic } from "../core/files.ts";
import type { DecodedType } from "../trainer/formats/ggml_types.ts";

const ROOT = fileURLToPath(new URL("../fixtures/", import.meta.url));
const CACHE = fileURLToPath(new URL("../.cache/fixtures/", import.meta.url));

/** A line of `fixtures/manifest.json`; paths are relative to `fixtures/`. */
export interface FixtureEntry {
  path: string;
  sha256: string;
  origin: string;
  license: string;
  /** The SHA-256 of the unpacked content of a packed file; of a `.head.gz` or `.delta.gz` file, that of the complete one. */
  unpacked_sha256?: string;
  /** The fixture with the weights of a `.head.gz` file. */
  quantized_from?: string;
  /** The fixture whose bytes a `.delta.gz` file names. */
  copied_from?: string;
}

/** The entries of the manifest, in order. */
export async function fixtureEntries(): Promise<FixtureEntry[]> {
  const manifest = JSON.parse(await Deno.readTextFile(`${ROOT}manifest.json`));
  return manifest.files;
}

/** The SHA-256 of bytes in lower-case hex. */
export function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** The bytes of a fixture such as `models/tiny-agent/golden.json`, unpacked. */
export async function readFixture(name: string): Promise<Uint8Array<ArrayBuffer>> {
  if (await Deno.stat(ROOT + name).catch(() => null)) return await Deno.readFile(ROOT + name);
  const entry = await packedEntry(name);
  // A quantised model takes a second to make.
  if (entry.quantized_from !== undefined) return await Deno.readFile(await fixturePath(name));
  return await complete(entry);
}

/** The entry of a fixture that is not stored as it is. */
async function packedEntry(name: string): Promise<FixtureEntry> {
  const entry = (await fixtureEntries()).find(({ path }) =>
    [".gz", ".br", ".head.gz", ".delta.gz"].some((suffix) => path === name + suffix)
  );
  if (!entry) throw new Error(`Cannot find the fixture ${name}: fixtures/manifest.json does not list it`);
  return entry;
}

async function unpack({ path }: FixtureEntry): Promise<Uint8Array<ArrayBuffer>> {
  const packed = await Deno.readFile(ROOT + path);
  return new Uint8Array(path.endsWith(".br") ? brotliDecompressSync(packed) : gunzipSync(packed));
}

/** The bytes of a fixture that is not stored as it is. */
async function complete(entry: FixtureEntry): Promise<Uint8Array<ArrayBuffer>> {
  if (entry.quantized_from !== undefined) return await quantized(entry);
  return entry.copied_from === undefined ? await unpack(entry) : await copied(entry);
}

/** The bytes of a file from a list of own bytes (base64) and of places `[offset, length]` in another fixture. */
async function copied(entry: FixtureEntry): Promise<Uint8Array<ArrayBuffer>> {
  const source = await readFixture(entry.copied_from!);
  const pieces: (string | [number, number])[] = JSON.parse(new TextDecoder().decode(await unpack(entry)));
  const parts = pieces.map((piece) =>
    typeof piece === "string" ? Uint8Array.fromBase64(piece) : source.subarray(piece[0], piece[0] + piece[1])
  );
  return await new Blob(parts).bytes();
}

/** The bytes of a model from what comes before its weights, and from the weights of another one. */
async function quantized(entry: FixtureEntry): Promise<Uint8Array<ArrayBuffer>> {
  // Few tests need this, and most of those that read fixtures know nothing of models.
  const [{ openGguf, openGgufHeader }, { encodeTensor }] = await Promise.all([
    import("../trainer/formats/gguf.ts"),
    import("../trainer/formats/encode_tensor_testing.ts"),
  ]);
  const head = await unpack(entry), head_path = await Deno.makeTempFile({ suffix: ".gguf" });
  try {
    await Deno.writeFile(head_path, head);
    using target = await openGgufHeader(head_path),
      source = await openGguf(await fixturePath(entry.quantized_from!));
    const tensors = [...target.tensors.values()];
    const bytes = new Uint8Array(Math.max(...tensors.map(({ offset, bytes }) => offset + bytes)));
    bytes.set(head);
    for (const { name, type, offset } of tensors) {
      const is_same = source.tensor(name).type === type;
      const values = is_same
        ? await source.readTensor(name)
        : encodeTensor(type as DecodedType, await source.readFloats(name));
      bytes.set(values, offset);
    }
    if (sha256(bytes) === entry.unpacked_sha256) return bytes;
    throw new Error(
      `Cannot make the model of ${entry.path}: its bytes are not those of fixtures/manifest.json`,
    );
  } finally {
    await Deno.remove(head_path);
  }
}

/** A fixture as text. */
export async function readFixtureText(name: string): Promise<string> {
  return new TextDecoder().decode(await readFixture(name));
}

/** A fixture as parsed JSON. */
// deno-lint-ignore no-explicit-any -- goldens are read field by field in tests
export async function readFixtureJson(name: string): Promise<any> {
  return JSON.parse(await readFixtureText(name));
}

/** A fixture's JSON Lines, parsed. */
// deno-lint-ignore no-explicit-any -- as above
export async function readFixtureLines(name: string): Promise<any[]> {
  const text = await readFixtureText(name);
  return text.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line));
}

/** The path of a fixture's file; a packed one is made in `.cache/fixtures/<hash>/` once. */
export async function fixturePath(name: string): Promise<string> {
  const plain = await Deno.stat(ROOT + name).catch(() => null);
  if (plain) return ROOT + name;
  const entry = await packedEntry(name);
  const path = `${CACHE}${entry.unpacked_sha256}/${name.split("/").at(-1)}`;
  if (await Deno.stat(path).catch(() => null)) return path;
  // Tests in several processes may unpack at the same time: each writes its own file and renames it.
  const own = `${path}.${Deno.pid}-${crypto.randomUUID()}`;
  await writeFileAtomic(own, await complete(entry));
  await Deno.rename(own, path);
  return path;
}
