import assert from "node:assert/strict";
import { withFolder } from "../tests/folder.ts";
import { startWaiting } from "../tests/waiting_process.ts";
import {
  ignoreMissing,
  isPresent,
  makeFolder,
  partialPath,
  sha256OfFile,
  whyNotWritable,
  writeFileAtomic,
} from "./files.ts";

const STRICT = { sanitizeOps: true, sanitizeResources: true };

async function namesIn(directory: string): Promise<string[]> {
  return (await Array.fromAsync(Deno.readDir(directory))).map(({ name }) => name).sort();
}

Deno.test({
  name: "a file is written completely, in pieces or at once, into folders that may not exist yet",
  ...STRICT,
  fn: () =>
    withFolder(async (directory) => {
      const path = `${directory}/a/b/file`;
      await writeFileAtomic(path, "abc");
      assert.equal(await Deno.readTextFile(path), "abc");
      // The digest of "abc" in FIPS 180-2, appendix B.1.
      const digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
      assert.equal(await sha256OfFile(path), digest);
      await writeFileAtomic(path, [Uint8Array.of(97), Uint8Array.of(), Uint8Array.of(98, 99)]);
      assert.equal(await sha256OfFile(path), digest);
      assert.deepEqual(await namesIn(`${directory}/a/b`), ["file"]);
    }),
});

Deno.test({
  name: "a failure at any piece, in writing or in reading back leaves the old file and nothing else",
  ...STRICT,
  fn: () =>
    withFolder(async (directory) => {
      const path = `${directory}/file`, old = "what stood there";
      await writeFileAtomic(path, old);
      for (let failing = 0; failing < 3; failing++) {
        const pieces = function* () {
          for (let i = 0; i < 3; i++) {
            if (i === failing) throw new Error("no more");
            yield Uint8Array.of(i);
          }
        };
        await assert.rejects(writeFileAtomic(path, pieces()), /no more/);
      }
      await assert.rejects(
        writeFileAtomic(path, "new", async (partial_path) => {
          assert.equal(await Deno.readTextFile(partial_path), "new");
          assert.equal(await Deno.readTextFile(path), old);
          throw new Error("differs");
        }),
        /differs/,
      );
      const full = async function* () {
        yield Uint8Array.of(1);
        await Deno.writeTextFile("/dev/full", "no space");
      };
      await assert.rejects(
        writeFileAtomic(path, full()),
        /Cannot write .*file: no space is left on the disk; free some space/,
      );
      assert.equal(await Deno.readTextFile(path), old);
      assert.deepEqual(await namesIn(directory), ["file"]);
    }),
});

Deno.test({
  name: "a file that is incomplete uses no name that a user would choose",
  ...STRICT,
  fn: () =>
    withFolder(async (directory) => {
      const names = ["file.partial", "file.tmp", ".file.partial", "file~", "partial"];
      for (const name of names) await Deno.writeTextFile(`${directory}/${name}`, "mine");
      await Deno.symlink("file.partial", partialPath(`${directory}/file`));
      await writeFileAtomic(`${directory}/file`, "new");
      assert.ok((await Deno.lstat(`${directory}/file`)).isFile);
      for (const name of names) assert.equal(await Deno.readTextFile(`${directory}/${name}`), "mine");
    }),
});

/** Starts a process that writes a file, and waits in the middle of it. */
async function startWriter(path: string): Promise<Deno.ChildProcess> {
  const script = `import { writeFileAtomic } from ${JSON.stringify(import.meta.resolve("./files.ts"))};
    async function* halves() {
      yield new TextEncoder().encode("their first half, ");
      console.log("ready");
      await Deno.stdin.read(new Uint8Array(1));
      yield new TextEncoder().encode("their second half");
    }
    await writeFileAtomic(${JSON.stringify(path)}, halves());`;
  return await startWaiting(script);
}

Deno.test({
  name: "of two processes that write one file the second one is refused, and the file is never mixed",
  ...STRICT,
  fn: () =>
    withFolder(async (directory) => {
      const path = `${directory}/file`;
      await writeFileAtomic(path, "old");
      for (const end of ["goes on", "is killed"] as const) {
        const other = await startWriter(path);
        await assert.rejects(writeFileAtomic(path, "mine"), {
          code: "conflict",
          message: `Cannot write ${path}: it is being written; wait for that, or name another path`,
        });
        assert.equal(await Deno.readTextFile(path), "old");
        if (end === "is killed") other.kill("SIGKILL");
        await Promise.all([other.stdin.close(), other.stdout.cancel()]);
        assert.equal((await other.status).success, end === "goes on");
        const expected = end === "goes on" ? "their first half, their second half" : "old";
        assert.equal(await Deno.readTextFile(path), expected);
        await writeFileAtomic(path, "old");
        assert.deepEqual(await namesIn(directory), ["file"]);
      }
    }),
});

Deno.test({
  name: "a missing file is ignored, a broken link exists, and other errors are thrown",
  ...STRICT,
  fn: () =>
    withFolder(async (directory) => {
      await Deno.symlink("nothing", `${directory}/link`);
      const found = ["link", "none", "."].map((name) => isPresent(`${directory}/${name}`));
      assert.deepEqual(await Promise.all(found), [true, false, true]);
      await Deno.remove(`${directory}/none`).catch(ignoreMissing);
      // A folder that is not empty.
      await assert.rejects(Deno.remove(directory).catch(ignoreMissing), /os error/);
    }),
});

Deno.test({
  name: "each folder that is made is flushed into its parent before the next one, whichever operation fails",
  ...STRICT,
  fn: () =>
    withFolder(async (directory) => {
      const all = [
        "make /a",
        "sync the parent of /a",
        "make /a/b",
        "sync the parent of /a/b",
        "make /a/b/c",
        "sync the parent of /a/b/c",
      ];
      for (let failing = 0; failing <= all.length; failing++) {
        const root = await Deno.makeTempDir({ dir: directory }), seen: string[] = [];
        const tell = async (what: string, path: string, work?: () => Promise<void>) => {
          if (seen.length === failing) throw new Error("the power failed");
          seen.push(`${what} ${path.slice(root.length)}`);
          await work?.();
        };
        const made = makeFolder(`${root}/a/b/c`, {
          makeDirectory: (path) => tell("make", path, () => Deno.mkdir(path)),
          syncParent: (path) => tell("sync the parent of", path),
        });
        if (failing < all.length) await assert.rejects(made, /the power failed/);
        else await made;
        assert.deepEqual(seen, all.slice(0, failing));
        if (failing === all.length) {
          await makeFolder(`${root}/a/b/c`, { makeDirectory: fail, syncParent: fail });
        }
      }
    }),
});

const fail = () => Promise.reject(new Error("the folder is there"));

Deno.test({
  name: "a folder is made at once by several, and not where a file is",
  ...STRICT,
  fn: () =>
    withFolder(async (directory) => {
      await Promise.all(Array.from({ length: 8 }, () => makeFolder(`${directory}/a/b/c`)));
      assert.ok((await Deno.stat(`${directory}/a/b/c`)).isDirectory);
      await Deno.writeTextFile(`${directory}/file`, "");
      const refused = { name: "ServiceError", code: "path_not_found", message: /: a file is there$/ };
      await assert.rejects(makeFolder(`${directory}/file`), refused);
      await Deno.symlink(`${directory}/nothing`, `${directory}/link`);
      await assert.rejects(makeFolder(`${directory}/link`), { name: "ServiceError" });
    }),
});

Deno.test({
  name: "a probe of a folder leaves nothing, and removes what a probe left that died",
  ...STRICT,
  fn: () =>
    withFolder(async (directory) => {
      await Deno.writeTextFile(`${directory}/.svc-writable`, "");
      assert.equal(await whyNotWritable(`${directory}/out/adapter.gguf`, "file"), null);
      assert.deepEqual(await namesIn(directory), []);
    }),
});
