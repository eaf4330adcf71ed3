import { equal, match } from "node:assert/strict";
import { assert } from "../../core/errors.ts";
import { findIsolation, MAX_DATA_BYTES, MAX_FILE_BYTES, MAX_PROCESSES, MAX_TMP_BYTES } from "./bubblewrap.ts";
import { bubblewrapLack, openLocalSandbox } from "./local_sandbox_testing.ts";
import { type LocalSandbox, MAX_SIGNAL } from "./local_sandbox.ts";

const { signal } = new AbortController();
const lack = await bubblewrapLack();

/** Registers a test with a sandbox under bubblewrap. */
function confined(name: string, body: (sandbox: LocalSandbox) => Promise<void>): void {
  Deno.test({
    name: lack === null ? name : `${name} (skipped: ${lack})`,
    ignore: lack !== null,
    async fn() {
      const { isolation } = await findIsolation();
      assert(isolation, "bubblewrap works where its tests run");
      const { sandbox, close } = await openLocalSandbox(isolation);
      try {
        await body(sandbox);
      } finally {
        await close();
      }
    },
  });
}

confined("a confined program sees its workspace and nothing else of the machine", async (sandbox) => {
  const outside = await Deno.makeTempFile();
  Deno.env.set("SVC_CANARY", "seen");
  try {
    const sh = async (line: string) =>
      (await sandbox.run({ argv: ["sh", "-c", line] }, signal)).stdout.trim();
    equal(await sh("pwd; echo $HOME; id -u"), "/work\n/work\n1000");
    equal(await sh("cat /etc/passwd /etc/shadow 2>/dev/null; echo $SVC_CANARY"), "");
    equal(await sh(`cat ${outside} ${sandbox.root}/x 2>/dev/null || echo absent`), "absent");
    equal(await sh("touch /x /usr/x /etc/x 2>/dev/null || echo refused"), "refused");
    equal(await sh("ls /sys /home /root /var 2>/dev/null | wc -l"), "0");
    equal(await sh("sed 1,2d /proc/net/dev | cut -d: -f1"), "lo", "there is no network");
    equal(
      await sh(`kill -0 ${Deno.pid} 2>/dev/null && echo ours`),
      "",
      "processes have numbers of their own",
    );
    equal(await sh("grep CapEff /proc/self/status"), "CapEff:\t0000000000000000");
    equal(await sh("grep NoNewPrivs /proc/self/status"), "NoNewPrivs:\t1");
    match(
      await sh("mount -t tmpfs none /tmp 2>&1; mknod /tmp/d b 8 0 2>&1"),
      /(denied|permit|must be)[^]*permit/i,
    );
    equal(await sh("echo left > /tmp/left; ls /tmp"), "left");
    equal(await sh("ls /tmp"), "", "each program has a /tmp of its own");
  } finally {
    Deno.env.delete("SVC_CANARY");
    await Deno.remove(outside);
  }
});

confined("files have one place for confined programs and for file tools", async (sandbox) => {
  const run = (line: string) => sandbox.run({ argv: ["sh", "-c", line] }, signal);
  equal((await run("echo made > a; ln -s /work/a inside; ln -s /work/../etc out; ln -s /works no")).code, 0);
  equal(await sandbox.read("/work/a"), "made\n");
  equal(await sandbox.read("inside"), "made\n", "a link to an absolute path of the workspace");
  equal((await sandbox.list("/work")).length, 4);
  for (const path of ["out/hostname", "no", "/works", "/work/../etc/hostname", "/etc/hostname"]) {
    const refusal = await sandbox.read(path).catch((error) => error);
    equal(refusal.reason, "outside", path);
  }
  await sandbox.write("/work/b/c", "written");
  equal((await run("cat b/c")).stdout, "written");
});

confined("confined programs have limits of files, memory and processes", async (sandbox) => {
  const sh = (line: string) => sandbox.run({ argv: ["sh", "-c", line] }, signal);
  const over = `head -c ${MAX_FILE_BYTES + 1} /dev/zero > big; stat -c %s big`;
  equal((await sh(`trap '' XFSZ; ${over}`)).stdout.trim(), String(MAX_FILE_BYTES));
  const bytes = (await sh("df -B1 --output=size /tmp | tail -1")).stdout.trim();
  equal(bytes, String(MAX_TMP_BYTES));
  const limits = (await sh("grep -E 'data size|core file|processes' /proc/self/limits")).stdout;
  match(limits, RegExp(`Max data size +${MAX_DATA_BYTES} +${MAX_DATA_BYTES}`));
  match(limits, /Max core file size +0 +0/);
  // Linux does not apply it where this test runs as root.
  match(limits, RegExp(`Max processes +${MAX_PROCESSES} +${MAX_PROCESSES}`));
});

confined("a program that is missing or may not be executed is told from one that fails", async (sandbox) => {
  const missing = await sandbox.run({ argv: ["no-such-program"] }, signal).catch((error) => error);
  match(missing.message, /Cannot run no-such-program: no such program/);
  await sandbox.write("script", "exit 3\n");
  equal((await sandbox.run({ argv: ["./script"] }, signal)).code, 126);
  equal((await sandbox.run({ argv: ["sh", "script"] }, signal)).code, 3);
  const exit = (code: number) => sandbox.run({ argv: ["sh", "-c", `exit ${code}`] }, signal);
  equal((await exit(128 + MAX_SIGNAL)).ended, "killed", "as one that the signal killed");
  equal((await exit(128 + MAX_SIGNAL + 1)).code, 128 + MAX_SIGNAL + 1);
});
