import assert from "node:assert/strict";
import { withFolder } from "../tests/folder.ts";
import { startWaiting } from "../tests/waiting_process.ts";
import { openPartial } from "./partial.ts";

const STRICT = { sanitizeOps: true, sanitizeResources: true };
const KINDS = ["file", "folder"] as const;

/** Starts a process that opens a path, leaves something there, and waits. */
async function startOther(path: string, kind: "file" | "folder"): Promise<Deno.ChildProcess> {
  const script = `import { openPartial } from ${JSON.stringify(import.meta.resolve("./partial.ts"))};
    const path = ${JSON.stringify(path)};
    const opened = await openPartial(path, { kind: "${kind}", final: path });
    await Deno.writeTextFile("${kind}" === "file" ? path : path + "/x", "torn");
    console.log("ready");
    await Deno.stdin.read(new Uint8Array(1));`;
  return await startWaiting(script);
}

Deno.test({
  name: "what another process fills is refused; what it leaves when it is killed is replaced",
  ...STRICT,
  fn: async () => {
    for (const kind of KINDS) {
      await withFolder(async (directory) => {
        const path = `${directory}/.svc-partial-x`, final = `${directory}/x`;
        const other = await startOther(path, kind);
        await assert.rejects(openPartial(path, { kind, final }), {
          code: "conflict",
          message: `Cannot write ${final}: it is being written; wait for that, or name another path`,
          details: { path: final },
        });
        const left = kind === "file" ? path : `${path}/x`;
        assert.equal(await Deno.readTextFile(left), "torn");
        other.kill("SIGKILL");
        await Promise.all([other.status, other.stdin.close(), other.stdout.cancel()]);
        using _opened = await openPartial(path, { kind, final });
        const info = await Deno.stat(path);
        assert.ok(
          kind === "file" ? info.size === 0 : (await Array.fromAsync(Deno.readDir(path))).length === 0,
        );
      });
    }
  },
});

Deno.test({
  name: "what another process has moved or removed before it is locked does not count",
  ...STRICT,
  fn: async () => {
    const { tryLock } = Deno.FsFile.prototype;
    for (const kind of KINDS) {
      for (const change of ["moved", "removed"]) {
        await withFolder(async (directory) => {
          const path = `${directory}/partial`, final = `${directory}/x`;
          let locked = 0;
          Deno.FsFile.prototype.tryLock = async function (exclusive) {
            if (locked++ === 0) await (change === "moved" ? Deno.rename(path, final) : Deno.remove(path));
            return await tryLock.call(this, exclusive);
          };
          try {
            using opened = await openPartial(path, { kind, final });
            assert.equal((await opened.stat()).ino, (await Deno.stat(path)).ino);
            assert.equal(locked, 2);
          } finally {
            Deno.FsFile.prototype.tryLock = tryLock;
          }
        });
      }
    }
  },
});

Deno.test({
  name: "a link and a thing of another kind are removed, and nothing else",
  ...STRICT,
  fn: async () => {
    for (const kind of KINDS) {
      await withFolder(async (directory) => {
        const path = `${directory}/partial`, target = `${directory}/mine`;
        await Deno.writeTextFile(target, "mine");
        await Deno.symlink(target, path);
        const first = await openPartial(path, { kind, final: target }),
          other = kind === "file" ? "folder" : "file";
        await assert.rejects(openPartial(path, { kind: other, final: target }), { code: "conflict" });
        first.close();
        await Deno.remove(path);
        if (kind === "file") await Deno.mkdir(path);
        else await Deno.writeTextFile(path, "");
        using _opened = await openPartial(path, { kind, final: target });
        const info = await Deno.lstat(path);
        assert.ok(kind === "file" ? info.isFile : info.isDirectory);
        assert.equal(await Deno.readTextFile(target), "mine");
      });
    }
  },
});

Deno.test({
  name: "a file system without locks does not prevent a write",
  ...STRICT,
  fn: async () => {
    const { tryLock } = Deno.FsFile.prototype;
    await withFolder(async (directory) => {
      const path = `${directory}/partial`;
      Deno.FsFile.prototype.tryLock = () =>
        Promise.reject(new Deno.errors.NotSupported("no locks available"));
      try {
        using opened = await openPartial(path, { kind: "file", final: `${directory}/x` });
        assert.equal((await opened.stat()).size, 0);
      } finally {
        Deno.FsFile.prototype.tryLock = tryLock;
      }
    });
  },
});
