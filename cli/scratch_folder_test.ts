import assert from "node:assert/strict";
import { isDead } from "../tests/process_state.ts";
import { openScratchFolder } from "./scratch_folder.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

async function withParent(body: (parent: string) => Promise<void>) {
  const parent = await Deno.makeTempDir();
  try {
    await body(parent);
  } finally {
    await Deno.remove(parent, { recursive: true });
  }
}

const names = async (path: string) =>
  (await Array.fromAsync(Deno.readDir(path))).map(({ name }) => name).sort();

const MODULE = new URL("./scratch_folder.ts", import.meta.url).href;
const CONFIG = new URL("../deno.json", import.meta.url).pathname;

/** A process with a folder that contains a workspace, and a command in it that outlives the process. */
async function holder(parent: string) {
  const code = `
    const { openScratchFolder } = await import(${JSON.stringify(MODULE)});
    const { path } = await openScratchFolder(${JSON.stringify(parent)});
    await Deno.mkdir(path + "/svc-workspace-x");
    await Deno.writeTextFile(path + "/svc-workspace-x/file", "");
    const child = new Deno.Command("sleep", {
      args: ["1000"], env: { HOME: path + "/svc-workspace-x" }, stdin: "null", stdout: "null", stderr: "null",
    }).spawn();
    console.log(path + " " + child.pid);
    setInterval(() => {}, 1000);`;
  const process = new Deno.Command(Deno.execPath(), {
    args: ["eval", "--config", CONFIG, code],
    stdout: "piped",
  }).spawn();
  const reader = process.stdout.getReader();
  const [path, child] = new TextDecoder().decode((await reader.read()).value).trim().split(" ");
  await reader.cancel();
  const kill = async () => {
    process.kill("SIGKILL");
    await process.status;
  };
  return { path: path!, child: Number(child), kill };
}

Deno.test("a folder is removed when it is closed", strict, () =>
  withParent(async (parent) => {
    const scratch = await openScratchFolder(parent);
    await Deno.writeTextFile(`${scratch.path}/file`, "");
    await scratch.close();
    assert.deepEqual(await names(parent), []);
  }));

Deno.test(
  "a killed process's files are removed at the next start, and a living one's stay",
  strict,
  () =>
    withParent(async (parent) => {
      // One process was killed before it had a lock; the other folder is unknown.
      await Deno.mkdir(`${parent}/svc-eval-empty`);
      await Deno.mkdir(`${parent}/svc-eval-without-lock`);
      await Deno.writeTextFile(`${parent}/svc-eval-without-lock/file`, "");
      await Deno.mkdir(`${parent}/somebody-elses`);
      await Deno.writeTextFile(`${parent}/somebody-elses/lock`, "");
      const [dead, living] = [await holder(parent), await holder(parent)];
      await dead.kill();
      const mine = await openScratchFolder(parent);
      const other = await openScratchFolder(parent);
      const left = [living.path, mine.path, other.path].map((path) => path.split("/").at(-1)!);
      assert.deepEqual(await names(parent), [...left, "somebody-elses", "svc-eval-without-lock"].sort());
      if (Deno.build.os === "linux") {
        // A killed process is visible for a while. The number of rounds is limited.
        for (let round = 0; !await isDead(dead.child) && round < 5000; round++) {
          await new Promise((resolve) => setTimeout(resolve, 1));
        }
        assert.deepEqual([await isDead(dead.child), await isDead(living.child)], [true, false]);
      }
      await living.kill();
      Deno.kill(living.child, "SIGKILL");
      await other.close();
      await mine.close();
    }),
);

Deno.test(
  "a folder that another process removes before it is locked is created again",
  strict,
  () =>
    withParent(async (parent) => {
      const { makeTempDir } = Deno;
      let made = 0;
      Deno.makeTempDir = async (options) => {
        const path = await makeTempDir(options);
        // As a cleanup by another process does at this moment.
        if (made++ === 0) await Deno.remove(path);
        return path;
      };
      try {
        const scratch = await openScratchFolder(parent);
        assert.equal(made, 2);
        assert.deepEqual(await names(scratch.path), ["lock"]);
        await scratch.close();
      } finally {
        Deno.makeTempDir = makeTempDir;
      }
    }),
);

Deno.test("if no folder can be made, the reason is reported", strict, () =>
  withParent(async (parent) => {
    await assert.rejects(openScratchFolder(`${parent}/none`), {
      name: "ServiceError",
      code: "config_invalid",
      message: "Cannot make a temporary folder (TMPDIR names where): there is no such file or folder",
    });
  }));
