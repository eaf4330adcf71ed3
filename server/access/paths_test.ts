import assert from "node:assert/strict";
import { ManualClock } from "../../core/clock_fake.ts";
import { openRegularFile } from "../../core/regular_file.ts";
import { ServiceError } from "../../core/errors.ts";
import { checkDataset } from "../../runs/datasets/check_dataset.ts";
import { DatasetStore } from "../../runs/datasets/dataset_store.ts";
import { withFolder } from "../../tests/folder.ts";
import { clientData, clientFile } from "./paths.ts";
import { Problem, type ProblemError } from "../http/problems.ts";

/** The real path of a file, or the problem as `type pointer code`. */
async function outcome(path: string, roots: string[]): Promise<string> {
  try {
    return (await clientFile(path, { roots, pointer: "/model" })).path;
  } catch (error) {
    assert.ok(error instanceof Problem, String(error));
    const { type, errors } = error;
    return `${type} ${errors.map(({ pointer, code }) => `${pointer} ${code}`).join()}`;
  }
}

const FORBIDDEN = "forbidden-path /model forbidden_path";
const ABSENT = "invalid-request /model path_not_found";
const INVALID = "invalid-request /model invalid_value";

/** A root with a file, and a secret beside it. */
async function withRoot(body: (root: string, folder: string) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    await Deno.mkdir(`${folder}/files/deep`, { recursive: true });
    await Deno.writeTextFile(`${folder}/files/a.gguf`, "a");
    await Deno.writeTextFile(`${folder}/files/deep/b.gguf`, "b");
    await Deno.mkdir(`${folder}/outside`);
    await Deno.writeTextFile(`${folder}/outside/secret`, "s");
    await body(`${folder}/files`, folder);
  });
}

Deno.test("a regular file in a root is taken by its real path", () =>
  withRoot(async (root, folder) => {
    const a = `${root}/a.gguf`;
    assert.equal(await outcome(a, [root]), a);
    assert.equal(await outcome(`${root}//deep/../a.gguf`, [root]), a);
    assert.equal(await outcome(`${root}/deep/./b.gguf`, [root]), `${root}/deep/b.gguf`);
    await Deno.symlink("a.gguf", `${root}/link`);
    await Deno.symlink("link", `${root}/chain`);
    await Deno.symlink("deep", `${root}/folder`);
    assert.equal(await outcome(`${root}/chain`, [root]), a);
    assert.equal(await outcome(`${root}/folder/b.gguf`, [root]), `${root}/deep/b.gguf`);
    // A hard link is a name of the file like any other.
    await Deno.link(`${folder}/outside/secret`, `${root}/hard`);
    assert.equal(await outcome(`${root}/hard`, [root]), `${root}/hard`);
    // The root itself may be a link, and the path may lead through it.
    await Deno.symlink(root, `${folder}/roots`);
    assert.equal(await outcome(`${folder}/roots/a.gguf`, [`${folder}/roots`]), a);
    assert.equal(await outcome(a, [`${folder}/roots`]), a);
    const { dev, ino } = await Deno.stat(a);
    assert.deepEqual(await clientFile(a, { roots: [root], pointer: "" }), { path: a, dev, ino });
  }));

Deno.test("a path that leads out of every root is forbidden, whether there is something or not", () =>
  withRoot(async (root, folder) => {
    await Deno.symlink(`${folder}/outside/secret`, `${root}/link`);
    await Deno.symlink("link", `${root}/chain`);
    await Deno.symlink(`${folder}/outside`, `${root}/folder`);
    for (
      const path of [
        `${folder}/outside/secret`,
        `${folder}/outside/absent`,
        `${root}/../outside/secret`,
        `${root}/../outside/absent`,
        `${root}/deep/../../outside/secret`,
        `${root}/link`,
        `${root}/chain`,
        `${root}/folder/secret`,
        `${root}/folder/absent`,
        `${root}2/a.gguf`,
        "/proc/self/fd/0",
        "/proc/self/environ",
        "/dev/zero",
        "/etc/passwd",
        "/",
      ]
    ) assert.equal(await outcome(path, [root]), FORBIDDEN, path);
    assert.equal(await outcome(`${root}/a.gguf`, []), FORBIDDEN);
    assert.equal(await outcome(`${root}/a.gguf`, [`${folder}/no_such_root`]), FORBIDDEN);
  }));

Deno.test("relative paths and ~ resolve inside no root", () =>
  withRoot(async (root) => {
    const before = Deno.cwd();
    for (
      const path of ["a.gguf", "./a.gguf", "../files/a.gguf", "~/a.gguf", "~root/a.gguf", ".", "file:///a"]
    ) {
      assert.equal(await outcome(path, [root, before, "/"]), FORBIDDEN, path);
    }
  }));

Deno.test("what is in a root and no regular file is not found", () =>
  withRoot(async (root) => {
    await Deno.symlink("loop2", `${root}/loop1`);
    await Deno.symlink("loop1", `${root}/loop2`);
    await Deno.symlink("nowhere", `${root}/dangling`);
    const { code } = await new Deno.Command("mkfifo", { args: [`${root}/fifo`] }).output();
    assert.equal(code, 0);
    for (
      const name of [
        "absent",
        "absent/absent",
        "absent/../a.gguf/x",
        "a.gguf/",
        "a.gguf/x",
        "A.GGUF",
        "deep",
        "deep/",
        "loop1",
        "dangling",
        "fifo",
        "%61.gguf",
        "x".repeat(256),
      ]
    ) assert.equal(await outcome(`${root}/${name}`, [root]), ABSENT, name);
    assert.equal(await outcome(root, [root]), ABSENT);
  }));

Deno.test("names in another normal form are other names", () =>
  withRoot(async (root) => {
    await Deno.writeTextFile(`${root}/é`.normalize("NFC"), "");
    assert.equal(await outcome(`${root}/é`.normalize("NFC"), [root]), `${root}/é`.normalize("NFC"));
    assert.equal(await outcome(`${root}/é`.normalize("NFD"), [root]), ABSENT);
  }));

Deno.test("what is no path is invalid", () =>
  withRoot(async (root) => {
    for (const path of ["", `${root}/a.gguf\0`, "\0", `${root}/\ud800`, `${root}/${"x/".repeat(2100)}`]) {
      assert.equal(await outcome(path, [root]), INVALID, JSON.stringify(path.slice(-10)));
    }
    const at_limit = `${root}/${"x".repeat(4096 - root.length - 1)}`;
    assert.equal(await outcome(at_limit, [root]), ABSENT);
    assert.equal(await outcome(`${at_limit}x`, [root]), INVALID);
  }));

Deno.test("data is a path or the id of a dataset", () =>
  withRoot(async (root, folder) => {
    const datasets = new DatasetStore({
      folder: `${folder}/datasets`,
      clock: new ManualClock(),
      check: (request) => checkDataset(request),
    });
    const stream = new Blob(['{"text":"a"}']).stream();
    const { card } = await datasets.create({ stream, kind: "auto", signal: new AbortController().signal });
    const check = { roots: [root], pointer: "/data", datasets };
    const path = datasets.pathOf(card), { dev, ino } = await Deno.stat(path);
    assert.deepEqual(await clientData(card.id, check), { dataset: card.id, file: { path, dev, ino } });
    const { dataset, file } = await clientData(`${root}/a.gguf`, check);
    assert.deepEqual([dataset, file.path], [null, `${root}/a.gguf`]);
    const refused = async (named: string) => {
      const error = await clientData(named, check).then(() => null, (error) => error);
      return [error.type, error.errors.map(({ pointer, code }: ProblemError) => `${pointer} ${code}`)];
    };
    assert.deepEqual(await refused(`${card.id.slice(0, -1)}${card.id.endsWith("0") ? 1 : 0}`), [
      "not-found",
      ["/data not_found"],
    ]);
    assert.deepEqual(await refused(`${card.id}x`), ["not-found", ["/data not_found"]]);
    assert.deepEqual(await refused("ds_/a.gguf"), ["forbidden-path", ["/data forbidden_path"]]);
    assert.deepEqual(await refused(path), ["forbidden-path", ["/data forbidden_path"]]);
  }));

Deno.test("a file that is swapped between check and open is never another's content", () =>
  withRoot(async (root, folder) => {
    const path = `${root}/swapped`;
    let is_racing = true, opened = 0, refused = 0;
    const swap = async () => {
      for (let i = 0; is_racing; i++) {
        await Deno.symlink(`${folder}/outside/secret`, `${path}.new`);
        await Deno.rename(`${path}.new`, path);
        await Deno.writeTextFile(`${path}.new`, "fine");
        await Deno.rename(`${path}.new`, path);
      }
    };
    await Deno.writeTextFile(path, "fine");
    const racing = swap();
    for (let i = 0; i < 1000; i++) {
      try {
        using file = await openRegularFile(await clientFile(path, { roots: [root], pointer: "" }));
        const bytes = new Uint8Array(10);
        assert.equal(new TextDecoder().decode(bytes.subarray(0, await file.read(bytes) ?? 0)), "fine");
        opened++;
      } catch (error) {
        assert.ok(error instanceof Problem || error instanceof ServiceError, String(error));
        refused++;
      }
    }
    is_racing = false;
    await racing;
    assert.equal(opened + refused, 1000);
    assert.ok(refused > 0, "the race happened");
  }));
