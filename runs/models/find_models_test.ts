import assert from "node:assert/strict";
import { ManualClock } from "../../core/clock_fake.ts";
import { withFolder } from "../../tests/folder.ts";
import { FIND_LIMITS, findModels } from "./find_models.ts";

/** Makes empty files, and links as `name -> target`. */
async function make(folder: string, names: readonly string[]): Promise<void> {
  for (const name of names) {
    const [path, target] = name.split(" -> ") as [string, string | undefined];
    await Deno.mkdir(`${folder}/${path}`.replace(/\/[^/]*$/, ""), { recursive: true });
    if (target === undefined) await Deno.writeTextFile(`${folder}/${path}`, name);
    else await Deno.symlink(target, `${folder}/${path}`);
  }
}

/** Found paths below the folder. */
async function found(folder: string, roots: readonly string[], limits = {}) {
  const { models, complete } = await findModels(
    { roots: roots.map((root) => `${folder}/${root}`) },
    { limits: { ...FIND_LIMITS, ...limits } },
  );
  return { paths: models.map(({ path }) => path.slice(folder.length + 1)), complete };
}

Deno.test("model files are found in folders of roots, each once", () =>
  withFolder(async (folder) => {
    await make(folder, [
      "one/b.gguf",
      "one/a/A.GGUF",
      "one/note.txt",
      "one/gguf",
      "two/c.gguf",
      "two/c-again.gguf -> c.gguf",
      "two/up -> ..",
      "two/self -> .",
      "three/d.gguf",
    ]);
    const paths = ["one/a/A.GGUF", "one/b.gguf", "two/c.gguf"];
    assert.deepEqual(await found(folder, ["one", "two"]), { paths, complete: true });
    assert.deepEqual(await found(folder, ["two", "one", "one/a"]), { paths, complete: true });
  }));

Deno.test("links are followed inside of roots only, and a file has its own name where it can", () =>
  withFolder(async (folder) => {
    await make(folder, [
      "hub/blobs/3f",
      "hub/snapshots/main/model.gguf -> ../../blobs/3f",
      "hub/snapshots/old -> main",
      "hub/out.gguf -> ../outside/secret.gguf",
      "hub/away -> ../outside",
      "hub/nowhere.gguf -> nothing",
      "hub/loop.gguf -> loop.gguf",
      "outside/secret.gguf",
    ]);
    const { models } = await findModels({ roots: [`${folder}/hub`] });
    const { dev, ino } = await Deno.stat(`${folder}/hub/blobs/3f`);
    assert.equal(models.length, 1);
    const { path, file, size_bytes, modified_ms } = models[0]!;
    assert.equal(path, `${folder}/hub/snapshots/main/model.gguf`);
    assert.deepEqual(file, { path: `${folder}/hub/blobs/3f`, dev, ino });
    assert.equal(size_bytes, "hub/blobs/3f".length);
    assert.ok(modified_ms > 0);
    assert.deepEqual((await found(folder, ["hub", "outside"])).paths, [
      "hub/snapshots/main/model.gguf",
      "outside/secret.gguf",
    ]);
  }));

Deno.test("a folder named like a model, a pipe and an absent root are passed over", () =>
  withFolder(async (folder) => {
    await make(folder, ["files/x.gguf/inner.gguf"]);
    await new Deno.Command("mkfifo", { args: [`${folder}/files/pipe.gguf`] }).output();
    assert.deepEqual(await found(folder, ["files", "absent"]), {
      paths: ["files/x.gguf/inner.gguf"],
      complete: true,
    });
  }));

Deno.test("the search ends at its limits of depth, entries, files and time", () =>
  withFolder(async (folder) => {
    await make(folder, ["r/a.gguf", "r/b.gguf", "r/c/d.gguf", "r/c/e/f.gguf"]);
    const all = ["r/a.gguf", "r/b.gguf", "r/c/d.gguf", "r/c/e/f.gguf"];
    assert.deepEqual(await found(folder, ["r"], { depth: 2 }), { paths: all, complete: true });
    assert.deepEqual(await found(folder, ["r"], { depth: 1 }), { paths: all.slice(0, 3), complete: false });
    assert.deepEqual(await found(folder, ["r"], { files: 4 }), { paths: all, complete: true });
    assert.deepEqual(await found(folder, ["r"], { files: 1 }), { paths: all.slice(0, 1), complete: false });
    assert.deepEqual(await found(folder, ["r"], { entries: 6 }), { paths: all, complete: true });
    assert.deepEqual(await found(folder, ["r"], { entries: 2 }), { paths: all.slice(0, 2), complete: false });
    const clock = new ManualClock();
    let looks = 0;
    clock.monotonic_ms = () => looks++ < 2 ? 0 : 1000 * FIND_LIMITS.seconds;
    const late = await findModels({ roots: [`${folder}/r`] }, { clock });
    assert.deepEqual([late.models.length, late.complete], [1, false]);
  }));
