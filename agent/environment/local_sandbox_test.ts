import { deepEqual, equal, ok, rejects } from "node:assert/strict";
import { join } from "node:path";
import { type Clock, systemClock } from "../../core/clock.ts";
import { ManualClock } from "../../core/clock_fake.ts";
import { withFolder } from "../../tests/folder.ts";
import { DRAIN_TIMEOUT_MS, SEARCH_WAIT_MS } from "./command.ts";
import { LOOK_TIMEOUT_MS } from "./leftovers.ts";
import { CALL_GRACE_MS } from "./local.ts";
import { LocalSandbox, MAX_CHECKED_NAMES } from "./local_sandbox.ts";
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

Deno.test({
  name: "a result comes within a second of the limit, and what follows waits for the search for leftovers",
  ignore: Deno.build.os !== "linux",
  fn: () =>
    withFolder(async (proc) => {
      equal(CALL_GRACE_MS, 1000);
      ok(SEARCH_WAIT_MS + DRAIN_TIMEOUT_MS < CALL_GRACE_MS);
      // Reading this file blocks, as on a machine that is so busy that the search takes long.
      await Deno.mkdir(join(proc, "77"));
      ok((await new Deno.Command("mkfifo", { args: [join(proc, "77/environ")] }).output()).success);
      const { sandbox, clock, close } = await openLocalSandbox(null, { proc });
      const sleepers = async (count: number) => {
        while (clock.sleeping < count) await new Promise((resolve) => setTimeout(resolve, 1));
      };
      const running = sandbox.run({ argv: ["sleep", "1000"] }, signal);
      await sleepers(1);
      await clock.advance(30_000);
      await sleepers(2);
      await clock.advance(SEARCH_WAIT_MS);
      equal((await running).ended, "timeout");
      const next = sandbox.run({ argv: ["touch", "begun"] }, signal);
      const refused = rejects(next, { code: "environment_failed", message: /could not be read within/ });
      await clock.advance(LOOK_TIMEOUT_MS - SEARCH_WAIT_MS);
      await refused;
      deepEqual(await sandbox.list("."), []);
      await close();
    }),
});

Deno.test("the limit of a program includes what is done before it starts", () =>
  withFolder(async (folder) => {
    const still = new ManualClock(), delays: number[] = [];
    let now_ms = 0;
    const clock: Clock = {
      wall_ms: () => still.wall_ms(),
      monotonic_ms: () => now_ms += 7000,
      sleep(delay_ms, signal) {
        delays.push(delay_ms);
        return still.sleep(delay_ms, signal);
      },
    };
    const limits = { exec_timeout_secs: 30 };
    const sandbox = new LocalSandbox(await Deno.realPath(folder), { limits, clock });
    equal((await sandbox.run({ argv: ["true"] }, signal)).code, 0);
    equal(delays[0], 23_000);
  }));

Deno.test("a program whose limit passes before it starts is ended by its limit", () =>
  withFolder(async (proc) => {
    // Reading this file blocks, so that the search for leftovers does not end.
    await Deno.mkdir(join(proc, "77"));
    ok((await new Deno.Command("mkfifo", { args: [join(proc, "77/environ")] }).output()).success);
    const { sandbox: { root }, clock, close } = await openLocalSandbox(null);
    const sandbox = new LocalSandbox(root, { limits: { exec_timeout_secs: 5 }, clock, proc });
    const advance = async (delay_ms: number, sleepers: number) => {
      while (clock.sleeping < sleepers) await new Promise((resolve) => setTimeout(resolve, 1));
      await clock.advance(delay_ms);
    };
    const running = sandbox.run({ argv: ["sleep", "1000"] }, signal);
    await advance(5000, 1);
    await advance(SEARCH_WAIT_MS, 2);
    equal((await running).ended, "timeout");
    const next = sandbox.run({ argv: ["touch", "begun"] }, signal);
    await advance(5000, 2);
    deepEqual([(await next).ended, await sandbox.list(".")], ["timeout", []]);
    const settled = rejects(sandbox.settled(), { code: "environment_failed" });
    await clock.advance(LOOK_TIMEOUT_MS);
    await settled;
    await close();
  }));

Deno.test("a program does not run in a workspace that was removed, which is a result", async () => {
  const { sandbox, close } = await openLocalSandbox(null);
  await Deno.remove(sandbox.root);
  const { code, stderr } = await sandbox.run({ argv: ["true"] }, signal);
  deepEqual([code, stderr], [126, "the workspace was removed, or its permissions were\n"]);
  await close();
});

Deno.test({
  name: "Deno does not run where links cannot be looked for: in time, or in a folder with a long path",
  ignore: denoFolder() === null,
  async fn() {
    const { sandbox, close } = await openLocalSandbox(null);
    const deep = 'for i in $(seq 40); do mkdir "$1" && cd -P "$1" || exit; done';
    const made = await sandbox.run({ argv: ["sh", "-c", deep, "sh", "d".repeat(200)] }, signal);
    equal(made.stderr, "");
    const { code, stderr } = await sandbox.run({ argv: ["deno", "--version"] }, signal);
    deepEqual([code, stderr.slice(0, 39)], [126, "a folder cannot be searched for links, "]);
    await close();
    const slow = await openLocalSandbox(null);
    await Deno.symlink("x", join(slow.sandbox.root, "link"));
    let now_ms = 0;
    const clock: Clock = {
      wall_ms: () => 0,
      monotonic_ms: () => now_ms += 7000,
      sleep: (delay_ms, signal) => slow.clock.sleep(delay_ms, signal),
    };
    const late = new LocalSandbox(slow.sandbox.root, { limits: { exec_timeout_secs: 7 }, clock });
    equal((await late.run({ argv: ["deno", "--version"] }, signal)).ended, "timeout");
    await slow.close();
  },
});

Deno.test({
  name: "Deno does not run in a workspace with more than MAX_CHECKED_NAMES names",
  ignore: denoFolder() === null,
  async fn() {
    // So many files are made in memory where that is possible.
    const memory = (await Deno.stat("/dev/shm").catch(() => null))?.isDirectory;
    const { sandbox, close } = await openLocalSandbox(null, memory ? { dir: "/dev/shm" } : {});
    const run = (argv: string[]) => sandbox.run({ argv }, signal);
    try {
      await Deno.mkdir(join(sandbox.root, "many"));
      equal((await run(["sh", "-c", `cd many && seq 2 ${MAX_CHECKED_NAMES} | xargs touch`])).code, 0);
      equal((await run(["deno", "--version"])).code, 0);
      await sandbox.write("one_more", "");
      const { code, stderr } = await run(["deno", "--version"]);
      deepEqual([code, stderr], [
        126,
        `the workspace has more than ${MAX_CHECKED_NAMES} names; remove some\n`,
      ]);
    } finally {
      await close();
    }
  },
});
