import { equal, match } from "node:assert/strict";
import { assert } from "../../core/errors.ts";
import { findIsolation, MAX_DATA_BYTES, MAX_FILE_BYTES, MAX_PROCESSES, MAX_TMP_BYTES } from "./bubblewrap.ts";
import { bubblewrapLack, openLocalSandbox } from "./local_sandbox_testing.ts";
import type { LocalSandbox } from "./local_sandbox.ts";
import { MAX_SIGNAL } from "./verdict.ts";

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

confined("X1: a confined program reaches no network, not even this machine's", async (sandbox) => {
  const bash = (line: string) => sandbox.run({ argv: ["bash", "-c", line] }, signal);
  const folder = await Deno.makeTempDir(), path = `${folder}/socket`;
  using tcp = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  using unix = Deno.listen({ transport: "unix", path });
  let connections = 0;
  for (const listener of [tcp, unix]) {
    listener.accept().then((connection) => {
      connections++;
      connection.close();
    }, () => {});
  }
  const near = `/dev/tcp/127.0.0.1/${tcp.addr.port}`;
  const far = ["/dev/tcp/1.1.1.1/443", "/dev/udp/1.1.1.1/53", "/dev/tcp/169.254.169.254/80"];
  for (const place of [near, ...far]) equal((await bash(`exec 3<>${place}`)).code, 1, place);
  equal((await bash("getent hosts metadata.google.internal example.com")).stdout, "");
  equal((await bash(`test -e ${path} && echo there`)).stdout, "");
  equal((await bash("cat /proc/net/unix | sed 1d")).stdout, "", "nor sockets without a file");
  equal(connections, 0);
  await Deno.remove(folder, { recursive: true });
});

/** Commands that a sandbox must end, with all that they start. They hold the marker in their arguments. */
const ENDLESS: Readonly<Record<string, (marker: string) => string>> = {
  "a spin": (marker) => `: ${marker}; while :; do :; done`,
  "a sleep that ignores SIGTERM": (marker) => `trap '' TERM INT HUP; sleep ${marker}`,
  "other sessions and double forks": (marker) =>
    `setsid sleep ${marker} & (setsid sh -c 'sleep ${marker} &' &); sleep ${marker}`,
  "many processes": (marker) =>
    `i=0; while [ $i -lt 100 ]; do setsid sleep ${marker} & i=$((i+1)); done; wait`,
  "endless output": (marker) => `yes ${marker}`,
};

async function processesWith(text: string): Promise<number> {
  let count = 0;
  for await (const { name } of Deno.readDir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const command = await Deno.readTextFile(`/proc/${name}/cmdline`).catch(() => "");
    if (command.includes(text)) count++;
  }
  return count;
}

for (const [what, line] of Object.entries(ENDLESS)) {
  confined(`X2: at its limit ${what} is gone, and the next program runs`, async () => {
    const { isolation } = await findIsolation();
    const { sandbox, clock, close } = await openLocalSandbox(isolation);
    const marker = String(1e9 + crypto.getRandomValues(new Uint32Array(1))[0]!);
    const running = sandbox.run({ argv: ["bash", "-c", line(marker)] }, signal);
    while (clock.sleeping === 0 || await processesWith(marker) === 0) {
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    await clock.advance(30_000);
    equal((await running).ended, "timeout");
    while (await processesWith(marker) > 0) await new Promise((resolve) => setTimeout(resolve, 1));
    equal((await sandbox.run({ argv: ["echo", "next"] }, signal)).stdout, "next\n");
    await close();
  });
}

confined("X2: memory, temporary files and input that never come end by themselves", async (sandbox) => {
  const bash = (line: string) => sandbox.run({ argv: ["bash", "-c", line] }, signal);
  const bomb = await bash(`dd if=/dev/zero of=/dev/null count=1 bs=${2 * MAX_DATA_BYTES}`);
  match(bomb.stderr, /memory exhausted/);
  const half = MAX_TMP_BYTES / 2 + 1;
  const filled = await bash(`head -c ${half} /dev/zero > /tmp/a; head -c ${half} /dev/zero > /tmp/b`);
  match(filled.stderr, /No space left/);
  equal((await bash("cat; read -r line || echo end")).stdout, "end\n");
});

confined("X4: a confined program has no way to more rights", async (sandbox) => {
  const bash = async (line: string) =>
    (await sandbox.run({ argv: ["bash", "-c", line] }, signal)).stdout.trim();
  // Writing its own value changes nothing where it is not refused.
  const own = 'f=/proc/sys/kernel/core_pattern; v=$(cat $f); (echo "$v" > $f) 2>/dev/null && echo written';
  equal(await bash(own), "", "the machine's settings");
  equal(await bash("find /proc/sys -writable 2>/dev/null | head -1"), "");
  equal(await bash("unshare -m true 2>/dev/null && echo mounted"), "");
  equal(
    await bash("ls /run /var /sys /dev/mem /dev/kmsg /dev/sda /dev/fuse 2>/dev/null"),
    "",
    "sockets of engines, devices",
  );
  equal(await bash("chmod u+s /usr/bin/env 2>/dev/null && echo changed"), "");
  equal(
    await bash("cp /usr/bin/id . && chmod 4755 id && ./id -u"),
    "1000",
    "a setuid program changes nothing",
  );
  equal(await bash("grep -c NoNewPrivs.*1 /proc/self/status"), "1");
  equal(
    await bash("ls /proc | grep -c '^[0-9]'").then((count) => Number(count) < 8),
    true,
    "no other processes",
  );
});
