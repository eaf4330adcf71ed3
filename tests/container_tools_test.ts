/** `svc images build` from Debian packages, without a registry, and the built-in toolsets in what it makes. */

import { deepEqual, match } from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { RunningContainer } from "../agent/environment/container/container.ts";
import { ContainerSandbox } from "../agent/environment/container/container_sandbox.ts";
import { askEngine } from "../agent/environment/container_engine.ts";
import { profileImage } from "../agent/environment/container_image.ts";
import {
  hasImage,
  LAB_PROFILE,
  labEngine,
  NO_CONTAINERS,
  REQUIRE_CONTAINERS,
} from "../agent/environment/container_testing.ts";
import { toolsetContract } from "../agent/tools/toolset_contract.ts";
import { ManualClock } from "../core/clock_fake.ts";

const CLI = fileURLToPath(new URL("../cli.ts", import.meta.url));

/** The images by profile. One that was built from this recipe before is not built again. */
const PROFILES = ["python", "typescript"] as const;

async function buildImage(profile: string): Promise<string> {
  const args = ["run", "-A", "--no-check", CLI, "images", "build", profile, "--from", "debian"];
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), { args, stdin: "null" }).output();
  return new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
}

/** Why the images cannot be had; null when they can. */
async function missingImages(): Promise<string | null> {
  if (NO_CONTAINERS !== null) return NO_CONTAINERS;
  for (const profile of PROFILES) {
    const image = profileImage(profile);
    if (!await hasImage(image)) {
      const said = await buildImage(profile);
      if (!await hasImage(image)) return `svc images build ${profile} failed: ${said}`;
      match(said, new RegExp(`built ${RegExp.escape(image)}`));
    }
  }
  return null;
}

const missing = await missingImages();
if (missing !== null && REQUIRE_CONTAINERS) throw new Error(`containers are required: ${missing}`);

async function openSandbox(profile: typeof PROFILES[number]) {
  const options = {
    engine: labEngine(),
    image: profileImage(profile),
    seccomp_profile: LAB_PROFILE,
    allow_network: false,
    limits: { cpus: 1, memory_mb: 1024 },
    labels: { "svc.test": "tools" },
  };
  const name = `svc-test-${crypto.randomUUID()}`;
  const container = await RunningContainer.start(options, name, new AbortController().signal);
  const clock = new ManualClock();
  return {
    sandbox: new ContainerSandbox(container, { limits: { exec_timeout_secs: 30 }, clock }),
    clock,
    close: () => container.end(),
  };
}

for (const profile of PROFILES) {
  const name = `containers, image of profile ${profile}`;
  if (missing !== null) {
    Deno.test({ name: `${name} (skipped: ${missing.replaceAll("\n", " ")})`, ignore: true, fn() {} });
    continue;
  }
  toolsetContract(name, () => openSandbox(profile), {
    lacks: profile === "python"
      ? { typescript: "it is another profile's" }
      : { python: "it is another profile's" },
  });
}

/** Why the list of system calls is not tested here; null: it is. */
const without_list = missing ??
  (LAB_PROFILE === undefined
    ? "the engine's own list of system calls applies"
    : Deno.build.arch !== "x86_64"
    ? "the numbers of system calls here are those of x86_64"
    : null);

/** Makes system calls with arguments that a kernel without restrictions would accept; names those that were not denied. */
const DENIED_CALLS = `
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
one = ctypes.create_string_buffer(b"user")
calls = {
  "ptrace itself": lambda: libc.ptrace(0, 0, 0, 0),
  "ptrace the helper": lambda: libc.ptrace(16, 1, 0, 0),
  "process_vm_readv": lambda: libc.process_vm_readv(1, None, 0, None, 0, 0),
  "keyctl": lambda: libc.syscall(250, 0, -3, 1),
  "add_key": lambda: libc.syscall(248, one, one, one, 4, -3),
  "unshare": lambda: libc.unshare(0x10000000),
}
for name, call in calls.items():
  result = call()
  if result != -1 or ctypes.get_errno() != 1:
    print(name, result, ctypes.get_errno())
`;

Deno.test({
  name: without_list === null
    ? "X4: tracing, keyrings and namespaces are denied"
    : `X4 (skipped: ${without_list})`,
  ignore: without_list !== null,
  async fn() {
    const { sandbox, close } = await openSandbox("python");
    try {
      const ran = await sandbox.run({ argv: ["python3", "-c", DENIED_CALLS] }, new AbortController().signal);
      deepEqual([ran.code, ran.stdout, ran.stderr], [0, "", ""]);
    } finally {
      await close();
    }
  },
});

/** A program of the attempt that finds the pipe of the requests and answers in the helper's place. */
const FORGER = `
import glob, os, time
def pipes(number, flags):
  for path in glob.glob(f"/proc/[0-9]*/fd/{number}"):
    try:
      if os.readlink(path).startswith("pipe:"):
        yield path, os.open(path, flags | os.O_NONBLOCK)
    except OSError:
      pass
found = {}
while True:
  found.update({path: fd for path, fd in pipes(0, os.O_RDONLY) if path not in found})
  open("/work/ready", "w").close()
  for fd in found.values():
    try:
      text = os.read(fd, 1 << 16).decode(errors="replace")
    except OSError:
      continue
    for word in (word for word in text.split() if len(word) == 32):
      for answer in word, f"{word} 0 .a 0\\n":
        for _, out in pipes(1, os.O_WRONLY):
          os.write(out, answer.encode())
        # The service reads one answer after the other.
        time.sleep(0.2)
`;

Deno.test({
  name: missing === null
    ? "X5: a program that reads the requests of its call cannot answer for it"
    : `X5 (skipped: ${missing})`,
  ignore: missing !== null,
  async fn() {
    const { sandbox, clock, close } = await openSandbox("python"), { signal } = new AbortController();
    try {
      // A line that fills the pipe: the program that writes it waits, and holds the pipe of the requests.
      const stdin = "x".repeat(100_000);
      const running = sandbox.run({ argv: ["python3", "-c", FORGER], stdin }, signal);
      const { name, options: { engine } } = sandbox.container;
      while ((await askEngine(engine.program, ["exec", name, "test", "-e", "/work/ready"])).code !== 0);
      await clock.advance(30_000);
      deepEqual((await running).ended, "timeout");
      // A container whose helper gets no requests is ended. Else nothing of the program goes on.
      if (!sandbox.container.is_usable) return;
      deepEqual((await sandbox.run({ argv: ["sh", "-c", "exit 3"] }, signal)).code, 3);
    } finally {
      await close();
    }
  },
});

/** Ends its first thread, and writes on in another. */
const WITHOUT_FIRST_THREAD = `
import ctypes, threading, time
def write():
  while True:
    open("/work/alive", "a").write("x")
    time.sleep(0.001)
threading.Thread(target=write, daemon=True).start()
while not open("/work/alive", "a+").tell(): pass
ctypes.CDLL(None).syscall(60, 0)
`;

Deno.test({
  name: missing === null
    ? "X5: a process without its first thread ends with its call"
    : `X5 (skipped: ${missing})`,
  ignore: missing !== null || Deno.build.arch !== "x86_64",
  async fn() {
    const { sandbox, close } = await openSandbox("python"), { signal } = new AbortController();
    const sh = (line: string, ...args: string[]) =>
      sandbox.run({ argv: ["sh", "-c", line, ...args] }, signal).then(({ stdout }) => stdout);
    try {
      const line = 'python3 -c "$0" & until grep -q "^State:.Z" /proc/$!/status; do :; done; echo left';
      deepEqual(await sh(line, WITHOUT_FIRST_THREAD), "left\n");
      deepEqual(await sh("cat /proc/[0-9]*/comm | grep -c python3"), "0\n");
      deepEqual(await sandbox.container.clean(10_000), true);
      // What the next attempt's programs would inherit from the helper.
      deepEqual(
        await sh('python3 -c "import resource as r; r.prlimit(1, r.RLIMIT_FSIZE, (9999, 9999))"; echo done'),
        "done\n",
      );
      deepEqual(await sandbox.container.clean(10_000), false);
      // Where the engine's own list of system calls applies, attributes are allowed.
      if (LAB_PROFILE === undefined) return;
      deepEqual(
        await sh("python3 -c \"import os; os.setxattr('/work', 'user.a', b'1')\" || echo refused"),
        "refused\n",
      );
    } finally {
      await close();
    }
  },
});

Deno.test({
  name: missing === null
    ? "X2: input that a command does not read costs no container"
    : `X2 (skipped: ${missing})`,
  ignore: missing !== null,
  async fn() {
    const { sandbox: { container }, clock, close } = await openSandbox("python");
    const { signal } = new AbortController();
    try {
      const call = {
        line: "x sleep 1000",
        input: [new Uint8Array(100_000)],
        max_output_bytes: 10,
        timeout_ms: 1000,
      };
      deepEqual((await container.call({ ...call, clock, signal })).ended, "killed");
      deepEqual((await container.call({ ...call, line: "x true", clock, signal })).ended, "exited");
    } finally {
      await close();
    }
  },
});
