/** Rows X1 to X4 of the sandbox: what programs in a container cannot do, and that each limit ends only its own call. */

import { deepEqual, equal, match, ok, rejects } from "node:assert/strict";
import { ManualClock } from "../../../core/clock_fake.ts";
import { WorkspaceRefusal } from "../../tools/workspace_files.ts";
import { labContainer, needsContainers } from "../container_testing.ts";
import { MAX_RESULT_BYTES } from "../workspace.ts";
import { RunningContainer } from "./container.ts";
import { ContainerSandbox } from "./container_sandbox.ts";
import { MAX_PROCESSES, tmpfsBytes } from "./run_arguments.ts";

const NEVER = new AbortController().signal;
const LIMITS = { cpus: 1, memory_mb: 128 };

const NO_PROGRAMS = "ps -o comm | grep -x -e sleep -e yes || echo none";

interface Tested {
  sandbox: ContainerSandbox;
  container: RunningContainer;
  clock: ManualClock;
  /** Runs a line of shell; its output, or how it ended. */
  sh(line: string): Promise<string>;
}

async function withSandbox(use: (tested: Tested) => Promise<void>): Promise<void> {
  // A busy machine may need longer than the grace for a signal.
  const machine = new ManualClock(), name = `svc-test-${crypto.randomUUID()}`;
  const container = await RunningContainer.start(labContainer({ clock: machine }), name, NEVER);
  const clock = new ManualClock();
  const sandbox = new ContainerSandbox(container, { limits: { exec_timeout_secs: 30 }, clock });
  const sh = async (line: string) => {
    const { ended, code, stdout, stderr } = await sandbox.run({ argv: ["sh", "-c", line] }, NEVER);
    return ended === "exited" && code === 0 ? stdout.trim() : `${code ?? ended}: ${stderr.trim()}`;
  };
  try {
    await use({ sandbox, container, clock, sh });
  } finally {
    await container.end();
  }
}

function containerTest(name: string, use: (tested: Tested) => Promise<void>): void {
  Deno.test({
    ...needsContainers(name),
    sanitizeOps: true,
    sanitizeResources: true,
    fn: () => withSandbox(use),
  });
}

/** Advances the clock as soon as a call waits for it. */
async function expire({ clock }: Tested): Promise<void> {
  while (clock.sleeping === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  await clock.advance(30_000);
}

containerTest("X1: a container has no network", async ({ sh }) => {
  equal(await sh("ls /sys/class/net"), "lo");
  for (
    const line of [
      "nc -w 2 1.1.1.1 80 </dev/null",
      "nc -w 2 169.254.169.254 80 </dev/null",
      "echo x | nc -u -w 2 8.8.8.8 53",
      "nslookup example.com 127.0.0.1",
      "nslookup metadata.google.internal",
      "ls /var/run/docker.sock /run/podman/podman.sock",
    ]
  ) ok(/^\d+: /.test(await sh(line)), line);
  // A server on the machine's loopback is not on the container's.
  const server = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = server.addr as Deno.NetAddr;
  ok(/refused/.test(await sh(`nc -w 2 127.0.0.1 ${port} </dev/null`)));
  server.close();
});

containerTest("X2: what a command starts and leaves ends with it", async ({ sh }) => {
  for (
    const line of [
      "sleep 1000 & echo left",
      "setsid sleep 1000 & echo left",
      "(setsid sh -c '(sleep 1000 >/dev/null 2>&1 &) ; sleep 1000' &) ; echo left",
      "trap '' TERM HUP INT; (while :; do sleep 1000; done) & echo left",
    ]
  ) {
    equal(await sh(line), "left", line);
    equal(await sh(NO_PROGRAMS), "none", line);
  }
  equal(await sh("cat"), "", "the input has ended");
});

containerTest("X2: a limit ends a call, and the next one works", async (tested) => {
  const { sandbox, sh } = tested;
  for (
    const line of [
      "sleep 1000",
      "while :; do :; done",
      "trap '' TERM INT HUP USR1; setsid sleep 1000 & while :; do sleep 1; done",
      "yes",
      "yes >&2",
      "cat /dev/zero",
      "b() { b & b & }; b & exec sleep 1000",
    ]
  ) {
    const running = sandbox.run({ argv: ["sh", "-c", `${line}`], max_output_bytes: 1000 }, NEVER);
    await expire(tested);
    const { ended, code, stdout, stderr } = await running;
    deepEqual([ended, code], ["timeout", null], line);
    ok(stdout.length <= 1000 && stderr.length <= 1000, line);
    equal(await sh("echo works"), "works", line);
    equal(await sh(NO_PROGRAMS), "none", line);
  }
});

containerTest("X2: an abort ends a call, and the next one works", async ({ sandbox, sh }) => {
  const controller = new AbortController();
  const running = sandbox.run({ argv: ["sleep", "1000"] }, controller.signal);
  controller.abort();
  equal((await running).ended, "cancelled");
  equal(await sh("echo works"), "works");
});

containerTest("X2: output beyond the limit is discarded in the container", async ({ sandbox }) => {
  const flood = await sandbox.run({ argv: ["head", "-c", "200000000", "/dev/zero"] }, NEVER);
  deepEqual([flood.ended, flood.code, flood.capped, flood.stdout.length], ["exited", 0, true, 1 << 20]);
  const exact = await sandbox.run({ argv: ["printf", "12345"], max_output_bytes: 5 }, NEVER);
  deepEqual([exact.stdout, exact.capped], ["12345", false]);
  const more = await sandbox.run({ argv: ["printf", "123456"], max_output_bytes: 5 }, NEVER);
  deepEqual([more.stdout, more.capped], ["12345", true]);
});

containerTest(
  "X2: a long output has its end besides its start when a command asks for it",
  async ({ sandbox }) => {
    const run = (line: string, more: object) => sandbox.run({ argv: ["sh", "-c", line], ...more }, NEVER);
    const long = await run("printf 0123456789äz", { max_output_bytes: 4, tail_bytes: 2 });
    deepEqual([long.stdout, long.capped, long.tails], ["0123", true, { stdout: "z", stderr: "" }]);
    const pieces = await run("for i in 1 2 3 4 5; do printf $i; done >&2", {
      max_output_bytes: 1,
      tail_bytes: 3,
    });
    deepEqual(pieces.tails, { stdout: "", stderr: "345" });
    const { tails, stdout } = await run("seq 1000000", { max_output_bytes: 3, tail_bytes: 8 });
    deepEqual([stdout, tails?.stdout], ["1\n2", "1000000\n"]);
    equal((await run("printf 0123", { max_output_bytes: 4, tail_bytes: 2 })).tails, undefined);
    equal((await run("printf 01234", { max_output_bytes: 4 })).tails, undefined);
  },
);

containerTest("a program's input is complete, and need not be read", async ({ sandbox, sh }) => {
  const stdin = "zwölf\n".repeat(400_000);
  equal((await sandbox.run({ argv: ["wc", "-c"], stdin }, NEVER)).stdout.trim(), "2800000");
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(stdin))).toHex();
  equal((await sandbox.run({ argv: ["sha256sum"], stdin }, NEVER)).stdout.slice(0, 64), hash);
  equal((await sandbox.run({ argv: ["sh", "-c", "exit 3"], stdin }, NEVER)).code, 3);
  const killed = await sandbox.run({ argv: ["kill", "-9", "-1"], stdin: "x".repeat(100_000) }, NEVER);
  equal(killed.ended, "killed");
  equal(await sh("echo works"), "works");
});

containerTest("X2: memory, processes and space are limited", async ({ sandbox, sh }) => {
  const bomb = `dd if=/dev/zero of=/dev/null bs=${LIMITS.memory_mb * 2}M count=1`;
  const { ended, out_of_memory } = await sandbox.run({ argv: ["sh", "-c", `exec ${bomb}`] }, NEVER);
  deepEqual([ended, out_of_memory], ["killed", true]);
  equal((await sandbox.run({ argv: ["true"] }, NEVER)).out_of_memory, undefined);
  ok(/No space left/.test(await sh("cat /dev/zero > /work/full")));
  equal(await sh("wc -c < /work/full"), String(tmpfsBytes(LIMITS)));
  equal(await sh("rm /work/full; echo gone"), "gone");
  const forks = await sh(`i=0; while [ $i -lt ${MAX_PROCESSES} ]; do sleep 100 & i=$((i+1)); done`);
  ok(/fork/.test(forks), forks);
  equal(await sh("echo works"), "works");
});

containerTest(
  "X2: a million files hit the memory limit and nothing else",
  async ({ sandbox, container, sh }) => {
    const line = "mkdir d; i=0; while [ $i -lt 1000000 ]; do : > d/$i || exit 1; i=$((i+1)); done";
    const result = await sandbox.run({ argv: ["sh", "-c", line] }, NEVER).catch(() => null);
    // The kernel ends the command, or with it the container: its memory also holds the names of files.
    ok(result === null || result.ended === "killed" || result.code !== 0);
    if (!container.is_usable) return;
    // The names stay, so the next call may have no memory either.
    const next = await sh("echo works").catch(({ code }) => code);
    ok(["works", "killed:", "environment_failed"].includes(next.trim()), next);
  },
);

containerTest("X2: a command cannot end or forge the helper", async ({ sh }) => {
  // Many, since a signal at the call's very end is another case.
  for (let i = 0; i < 50; i++) {
    equal(await sh("kill -9 1; kill -TERM 1; kill -INT 1; kill -HUP 1; echo still"), "still");
  }
  equal(await sh("kill -9 -1"), "killed: ");
  equal(await sh("echo works"), "works");
  for (const file of ["fd/0", "fd/1", "fd/3", "fd/4", "fd/9", "environ", "maps", "mem"]) {
    match(await sh(`cat /proc/1/${file}`), /^1: .*denied$/, file);
  }
  match(await sh("echo x 0 .a 0 > /proc/1/fd/1"), /^1: .*denied$/);
  // Nor those that it makes: what can be read is the program, what limits its time and what reads its output.
  const others = `session() { cut -d " " -f 6 "$1/stat"; }
    mine=$(session /proc/self)
    for p in /proc/[0-9]*; do
      cat $p/environ >/dev/null 2>&1 || continue
      [ "$(session $p)" = $mine ] || cat $p/comm
    done | grep -v -x -e dd -e timeout || :`;
  equal(await sh(others), "");
});

containerTest(
  "X2: what starts programs faster than they are found ends with its call",
  async ({ sh, container }) => {
    for (const line of ["b() { b & b & }; b & echo left", "b() { (b &) ; (b &) ; }; b & exec true"]) {
      await sh(line);
      equal(await sh("echo works"), "works", line);
      equal(await sh("ls -d /proc/[0-9]* | wc -l").then((count) => Number(count) < 16), true, line);
    }
    equal(container.is_usable, true);
  },
);

containerTest("X3: files are used inside the container", async ({ sandbox, sh }) => {
  const refused = (reason: string) => (error: unknown) => {
    ok(error instanceof WorkspaceRefusal);
    equal(error.reason, reason);
    return true;
  };
  equal(await sh("ln -s /etc/passwd p; ln -s /etc d; ln -s ../work/in back; mkdir in; echo ok > in/f"), "");
  for (const path of ["p", "d/passwd", "../etc/passwd", "/etc/passwd", "in/../../etc/passwd"]) {
    await rejects(sandbox.read(path), refused("outside"), path);
    await rejects(sandbox.write(path, "x"), refused("outside"), path);
    await rejects(sandbox.list(path), refused("outside"), path);
  }
  equal(await sandbox.read("back/f"), "ok\n");
  const names = ["a\nb", "it's", '"$(id)"', "-rf", " ", "$nl", "é\u{1f422}", "*", "..."];
  for (const name of names) await sandbox.write(`odd/${name}`, name);
  for (const name of names) equal(await sandbox.read(`odd/${name}`), name);
  const listed = await sandbox.list("odd");
  deepEqual(listed.map(({ name }) => name).sort(), names.toSorted());
  equal(await sh("head -c 3 /dev/urandom > binary; printf '\\377\\0\\n' > b; wc -c < b"), "3");
  equal(await sandbox.read("b"), "\ufffd\0\n");
  const large = "x".repeat(MAX_RESULT_BYTES);
  await sandbox.write("large", large);
  equal(await sandbox.read("large"), large);
  await sandbox.write("large", `${large}x`);
  await rejects(sandbox.read("large"), refused("too_large"));
  await rejects(sandbox.write("d2/x", "\ud800"), refused("unusable"));
});

containerTest(
  "X3: a file that is read without end is refused at the limit",
  async ({ container, clock, sh }) => {
    // More than any disk has; its size is only said.
    equal(await sh("truncate -s 1000000000000000 endless"), "");
    const sandbox = new ContainerSandbox(container, { limits: { exec_timeout_secs: 1 }, clock });
    await rejects(sandbox.read("endless"), { reason: "too_slow" });
    equal(await sh("echo works"), "works");
  },
);

containerTest("X4: a container has no rights beyond its user's", async ({ sh }) => {
  equal(await sh("id -u; id -g"), "1000\n1000");
  equal(
    await sh("grep -E 'Cap(Eff|Bnd|Prm)|NoNewPrivs|Seccomp:' /proc/self/status"),
    [
      "CapPrm:\t0000000000000000",
      "CapEff:\t0000000000000000",
      "CapBnd:\t0000000000000000",
      "NoNewPrivs:\t1",
      "Seccomp:\t2",
    ].join("\n"),
  );
  for (
    const line of [
      "mount -t tmpfs none /work",
      "mknod /work/dev c 1 3",
      "unshare -n true",
      "unshare -U true",
      "unshare -Urm mount -t tmpfs none /etc",
      "unshare -Un true",
      "echo 1 > /proc/sys/kernel/panic",
      "echo x > /etc/x",
      "echo x > /x",
      "echo 1 > /sys/fs/cgroup/x",
      "hostname other",
      "su root -c id",
      "cat /dev/mem",
      "ls /var/run/docker.sock",
    ]
  ) ok(/^\d+: /.test(await sh(line)), line);
  // Docker's are set, and empty.
  equal(await sh("env | grep -i proxy | grep -vc '=$' || true"), "0");
  // Also for a user who could write there.
  const mounts = await sh("cut -d ' ' -f 2,4 /proc/self/mounts");
  match(mounts, /^\/ ro[, ]/m);
  const writable = [...mounts.matchAll(/^(\/\S*) rw[, ]/gm)].map(([, path]) => path!);
  const places = writable.filter((path) => !/^\/(proc|sys|dev)(\/|$)/.test(path));
  deepEqual(places.sort(), ["/tmp", "/work"]);
});
