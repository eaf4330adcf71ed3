/**
 * `deno run -A scripts/pack_fixture.ts <path below fixtures/>…`: stores fixtures, plain ones or those ending in `.gz`, as
 * `<name>.br`, and writes their hashes to the manifest.
 */

import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gunzipSync } from "node:zlib";
import { writeFileAtomic } from "../core/files.ts";
import { fixtureEntries, sha256 } from "../tests/fixture.ts";

const ROOT = fileURLToPath(new URL("../fixtures/", import.meta.url));

/** 16 MiB: a list of merges is far behind the tokens that it repeats. */
const WINDOW_BITS = 24;

if (import.meta.main) {
  const entries = await fixtureEntries();
  for (const path of Deno.args) {
    const entry = entries.find((known) => known.path === path);
    if (entry === undefined) throw new Error(`Cannot pack ${path}: fixtures/manifest.json does not list it`);
    const stored = await Deno.readFile(ROOT + path);
    const content = path.endsWith(".gz") ? gunzipSync(stored) : stored;
    const packed = brotliCompressSync(content, {
      params: {
        [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
        [constants.BROTLI_PARAM_LGWIN]: WINDOW_BITS,
        [constants.BROTLI_PARAM_SIZE_HINT]: content.length,
      },
    });
    entry.path = `${path.replace(/\.gz$/, "")}.br`;
    Object.assign(entry, { sha256: sha256(packed), unpacked_sha256: sha256(content) });
    await Deno.writeFile(ROOT + entry.path, packed);
    await Deno.remove(ROOT + path);
    console.log(`${entry.path}: ${stored.length} bytes became ${packed.length}`);
  }
  entries.sort((a, b) => a.path < b.path ? -1 : 1);
  const lines = entries.map((entry) => {
    const fields = Object.entries(entry).map(([key, value]) => `"${key}": ${JSON.stringify(value)}`);
    return `    {${fields.join(", ")}}`;
  });
  await writeFileAtomic(`${ROOT}manifest.json`, `{\n  "files": [\n${lines.join(",\n")}\n  ]\n}\n`);
}
