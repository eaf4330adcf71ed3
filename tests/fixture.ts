/** Reads files in `fixtures/`. A file that gzip at least halves is stored as `<name>.gz` and requested as `<name>`. */

import { createHash } from "node:crypto";
import { fileURLToPath } from "node:url";
import { writeFileAtomic } from "../core/files.ts";

const ROOT = fileURLToPath(new URL("../fixtures/", import.meta.url));
const CACHE = fileURLToPath(new URL("../.cache/fixtures/", import.meta.url));

/** A line of `fixtures/manifest.json`; paths are relative to `fixtures/`. */
export interface FixtureEntry {
  path: string;
  sha256: string;
  origin: string;
  license: string;
  /** The SHA-256 of the unpacked content of a `.gz` file. */
  unpacked_sha256?: string;
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
  try {
    return await Deno.readFile(ROOT + name);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  const packed = await Deno.readFile(`${ROOT}${name}.gz`);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
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

/** The path of a fixture's file; a packed one is unpacked into `.cache/fixtures/<hash>/` once. */
export async function fixturePath(name: string): Promise<string> {
  const plain = await Deno.stat(ROOT + name).catch(() => null);
  if (plain) return ROOT + name;
  const entry = (await fixtureEntries()).find((file) => file.path === `${name}.gz`);
  if (!entry) throw new Error(`Cannot find the fixture ${name}: fixtures/manifest.json does not list it`);
  const path = `${CACHE}${entry.unpacked_sha256}/${name.split("/").at(-1)}`;
  if (await Deno.stat(path).catch(() => null)) return path;
  // Tests in several processes may unpack at the same time: each writes its own file and renames it.
  const own = `${path}.${Deno.pid}-${crypto.randomUUID()}`;
  await writeFileAtomic(own, await readFixture(name));
  await Deno.rename(own, path);
  return path;
}
