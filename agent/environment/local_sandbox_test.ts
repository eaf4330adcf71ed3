import { deepEqual, equal } from "node:assert/strict";
import { join } from "node:path";
import { systemClock } from "../../core/clock.ts";
import { withFolder } from "../../tests/folder.ts";
import { LocalSandbox } from "./local_sandbox.ts";
import { openLocalSandbox } from "./local_sandbox_testing.ts";
import { denoFolder } from "./program.ts";

const { signal } = new AbortController();
const options = { limits: { exec_timeout_secs: 300 }, clock: systemClock };

Deno.test("a program reads its input to the end, or ends without it", () =>
  withFolder(async (folder) => {
    const sandbox = new LocalSandbox(await Deno.realPath(folder), options);
    const text = "zwölf\n".repeat(100_000);
    const count = await sandbox.run({ argv: ["wc", "-lc"], stdin: text }, signal);
    equal(count.stdout.trim().replaceAll(/ +/g, " "), "100000 700000");
    const none = await sandbox.run({ argv: ["wc", "-c"] }, signal);
    equal(none.stdout.trim(), "0");
    const unread = await sandbox.run({ argv: ["sh", "-c", "exit 3"], stdin: text }, signal);
    equal(unread.code, 3);
  }));

Deno.test("a long output has its end besides its start when a command asks for it", () =>
  withFolder(async (folder) => {
    const sandbox = new LocalSandbox(await Deno.realPath(folder), options);
    const run = (line: string, more: object) => sandbox.run({ argv: ["sh", "-c", line], ...more }, signal);
    const long = await run("printf 0123456789äz", { max_output_bytes: 4, tail_bytes: 2 });
    deepEqual([long.stdout, long.capped, long.tails], ["0123", true, { stdout: "z", stderr: "" }]);
    const pieces = await run("for i in 1 2 3 4 5; do printf $i; done >&2", {
      ...{ max_output_bytes: 1, tail_bytes: 3 },
    });
    deepEqual(pieces.tails, { stdout: "", stderr: "345" });
    equal((await run("printf 0123", { max_output_bytes: 4, tail_bytes: 2 })).tails, undefined);
    equal((await run("printf 01234", { max_output_bytes: 4 })).tails, undefined);
  }));

Deno.test("texts of programs do not depend on the workspace's name, which has no trace of Deno", async () => {
  const { sandbox, close } = await openLocalSandbox(null);
  const result = await sandbox.run({ argv: ["sh", "-c", "pwd; pwd >&2"] }, signal);
  deepEqual([result.stdout, result.stderr], [".\n", ".\n"]);
  await sandbox.run({ argv: ["deno", "eval", "--no-config", "1"] }, signal);
  deepEqual(await sandbox.list("."), []);
  await close();
  const left = await Promise.all(
    [sandbox.root, `${sandbox.root}-deno`].map((path) => Deno.lstat(path).then(() => path, () => null)),
  );
  deepEqual(left, [null, null]);
});

Deno.test({
  name: "Deno does not run while a link leads outside",
  ignore: denoFolder() === null,
  async fn() {
    const { sandbox, close } = await openLocalSandbox(null);
    const run = () => sandbox.run({ argv: ["deno", "--version"] }, signal);
    await sandbox.write("a/b/file", "");
    await Deno.symlink("../b/file", join(sandbox.root, "a/b/inside"));
    equal((await run()).code, 0);
    await Deno.symlink("/etc", join(sandbox.root, "a/b/out"));
    const { code, stderr } = await run();
    deepEqual([code, stderr], [126, 'the link "a/b/out" leads outside the workspace; remove it\n']);
    await close();
  },
});
