import assert from "node:assert/strict";
import { join } from "node:path";
import { withFolder } from "../tests/folder.ts";
import { buildInterface, isBuilt } from "./build_ui.ts";
import { storeExampleData } from "./serve.ts";

Deno.test("the examples' data is stored without a broken row, and only at the first start", async () => {
  await withFolder(async (folder) => {
    const cards = async () => {
      const ids = [...Deno.readDirSync(join(folder, "datasets"))].map(({ name }) => name).sort().reverse();
      const read = (id: string) => Deno.readTextFile(join(folder, "datasets", id, "card.json"));
      return (await Promise.all(ids.map(read))).map((text) => JSON.parse(text));
    };
    await storeExampleData(folder);
    const stored = await cards();
    assert.deepEqual(stored.map(({ kind, invalid_rows }) => [kind, invalid_rows]), [
      ...[["scenarios", 0], ["scenarios", 0], ["sft", 0], ["preference", 0], ["preference", 0]],
    ]);
    await Deno.remove(join(folder, "datasets", stored[0].id), { recursive: true });
    await storeExampleData(folder);
    assert.deepEqual(await cards(), stored.slice(1));
  });
});

Deno.test("an interface that is missing or older than its sources is not built", async () => {
  await withFolder(async (folder) => {
    const page = join(folder, "index.html");
    assert.ok(!await isBuilt(folder));
    await buildInterface(folder);
    assert.ok(await isBuilt(folder));
    const source = await Deno.stat(new URL("../ui/main.tsx", import.meta.url));
    const before = new Date(Number(source.mtime) - 1000);
    await Deno.utime(page, before, before);
    assert.ok(!await isBuilt(folder));
  });
});
