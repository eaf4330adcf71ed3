import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { sha256OfFile } from "../core/files.ts";
import { fixtureEntries, fixturePath, readFixture, sha256 } from "./fixture.ts";

const ROOT = fileURLToPath(new URL("../fixtures/", import.meta.url));

async function filesUnder(directory: string, prefix = ""): Promise<string[]> {
  const found: string[] = [];
  for await (const entry of Deno.readDir(directory)) {
    const name = prefix + entry.name;
    if (entry.isDirectory) found.push(...await filesUnder(`${directory}${entry.name}/`, `${name}/`));
    else found.push(name);
  }
  return found;
}

Deno.test("the manifest lists every file of fixtures/ once, sorted by path", async () => {
  const listed = (await fixtureEntries()).map((entry) => entry.path);
  const present = (await filesUnder(ROOT)).filter((name) => name !== "manifest.json").sort();
  assert.deepEqual(listed, present);
});

Deno.test("every fixture has an origin, a licence and the bytes that the manifest names", async () => {
  for (const entry of await fixtureEntries()) {
    assert.ok(entry.origin && entry.license, entry.path);
    assert.equal(await sha256OfFile(ROOT + entry.path), entry.sha256, entry.path);
    if (!/\.(gz|br)$/.test(entry.path)) continue;
    const content = await readFixture(entry.path.replace(/(\.head|\.delta)?\.(gz|br)$/, ""));
    assert.equal(sha256(content), entry.unpacked_sha256, entry.path);
  }
});

Deno.test("a packed fixture has the path of its unpacked content", async () => {
  const name = "templates/goldens.json";
  const [first, second] = await Promise.all([fixturePath(name), fixturePath(name)]);
  assert.equal(first, second);
  assert.deepEqual(await Deno.readFile(first), await readFixture(name));
});
