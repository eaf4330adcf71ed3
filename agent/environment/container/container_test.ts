/** What a container's start and its calls say when the engine, the image or the helper fails, and what an engine is told. */

import { deepEqual, equal, ok, rejects } from "node:assert/strict";
import { ManualClock } from "../../../core/clock_fake.ts";
import { withFolder } from "../../../tests/folder.ts";
import { askEngine } from "../container_engine.ts";
import {
  FAKE_ENGINE,
  fakeEngine,
  LAB_IMAGE,
  labContainer,
  labEngine,
  needsContainers,
} from "../container_testing.ts";
import { GRACE_MS, probeImage, RunningContainer } from "./container.ts";
import { type ContainerOptions, runArguments } from "./run_arguments.ts";

const NEVER = new AbortController().signal;

/** Starts a container, and checks that a call to it ends at its limit and {@link GRACE_MS}, whatever the helper does. */
async function expectGivenUp(more: Partial<ContainerOptions>, spoil: (name: string) => Promise<unknown>) {
  const clock = new ManualClock(), machine = new ManualClock(), name = `svc-test-${crypto.randomUUID()}`;
  const container = await RunningContainer.start(labContainer({ ...more, clock: machine }), name, NEVER);
  await spoil(name);
  const input = [new Uint8Array(4 << 20)];
  const call = { line: "x true", input, max_output_bytes: 10, timeout_ms: 1000, clock, signal: NEVER };
  const running = container.call(call);
  while (clock.sleeping === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  await clock.advance(1000);
  let ended = false;
  running.catch(() => {}).finally(() => ended = true);
  while (machine.sleeping === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  await machine.advance(GRACE_MS - 1);
  equal(ended, false);
  await machine.advance(1);
  equal((await running).ended, "timeout");
  equal(container.is_usable, false);
  await rejects(container.call(call), { code: "environment_failed" });
  let is_gone = false;
  container.end().then(() => is_gone = true);
  while (!is_gone) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    await machine.advance(100);
  }
}

Deno.test({
  ...needsContainers("a container that does not answer is ended, and says so to later calls"),
  sanitizeOps: true,
  sanitizeResources: true,
  fn: () =>
    // Stopped from outside, as by a machine that hangs.
    expectGivenUp({}, (name) => askEngine(labEngine().program, ["kill", "-s", "STOP", name])),
});

/** What a broken helper does with a call. */
const BROKEN_HELPERS = {
  "reads nothing": "exec sleep 1000",
  "says nothing": "exec cat 3>&1 >/dev/null",
  "says nothing on standard output": 'read -r word _; printf %s "$word" >&2; exec cat 3>&1 >/dev/null',
  "says nothing on standard error": 'read -r word _; echo "$word 0 .a 0"; exec cat 3>&1 >/dev/null',
  "says half of an answer":
    'read -r word _; printf %s "$word" >&2; printf %s "$word 0 .a"; exec cat 3>&1 >/dev/null',
  "answers another call": "read -r word _; echo other 0 .a 0; printf other >&2; exec cat 3>&1 >/dev/null",
};

for (const [what, script] of Object.entries(BROKEN_HELPERS)) {
  Deno.test({
    name: `a call is given up when the helper ${what}`,
    ignore: Deno.build.os === "windows",
    sanitizeOps: true,
    sanitizeResources: true,
    fn: () =>
      withFolder(async (folder) => {
        // An engine whose container is this helper, and which ends nothing.
        const program = await fakeEngine(folder, `[ "$1" = run ] || exit 0\necho ready\n${script}`);
        await expectGivenUp({ engine: { ...FAKE_ENGINE, program } }, () => Promise.resolve());
      }),
  });
}

Deno.test("the arguments of an engine say all limits, and what it would add by itself is shut off", () => {
  const made = labContainer({ engine: FAKE_ENGINE, seccomp_profile: "/p.json" });
  const after = (args: readonly string[], name: string) =>
    args.flatMap((argument, i) => argument === name ? [args[i + 1]!] : []);
  const podman = runArguments(made, "svc-1", ["sh", "-c", "true"]);
  deepEqual(podman.slice(0, 3), ["run", "-i", "--rm"]);
  const tmpfs = `rw,size=${32 * 2 ** 20}`;
  const expected: Record<string, string[]> = {
    "--name": ["svc-1"],
    "--pull": ["never"],
    "--network": ["none"],
    "--cpus": ["1"],
    "--memory": ["128m"],
    "--memory-swap": ["128m"],
    "--pids-limit": ["256"],
    "--cap-drop": ["all"],
    "--user": ["1000:1000"],
    "--security-opt": ["seccomp=/p.json", "no-new-privileges"],
    "--tmpfs": [`/work:${tmpfs},U`, `/tmp:${tmpfs},U`],
    "--label": ["svc.test=sandbox"],
    "--entrypoint": ["sh"],
  };
  for (const [name, values] of Object.entries(expected)) deepEqual(after(podman, name), values, name);
  for (
    const flag of ["--read-only", "--read-only-tmpfs=false", "--image-volume=ignore", "--http-proxy=false"]
  ) {
    ok(podman.includes(flag), flag);
  }
  deepEqual(podman.slice(-3), [LAB_IMAGE, "-c", "true"]);
  const docker = runArguments({ ...made, engine: { ...FAKE_ENGINE, name: "docker" } }, "svc-1", ["sh"]);
  deepEqual(after(docker, "--tmpfs"), [
    `/work:${tmpfs},exec,uid=1000,gid=1000,mode=0755`,
    `/tmp:${tmpfs},exec,uid=1000,gid=1000,mode=0755`,
  ]);
  ok(docker.includes("--read-only") && !docker.some((argument) => argument.startsWith("--read-only-")));
  const proxies = after(docker, "--env").filter((variable) => /proxy/i.test(variable));
  ok(proxies.length === 10 && proxies.every((variable) => variable.endsWith("=")));
  const open = runArguments({ ...made, allow_network: true, runtime: "runsc" }, "svc-1", ["sh"]);
  deepEqual([after(open, "--network"), after(open, "--runtime")], [[], ["runsc"]]);
  const limits = (engine: string[], runtime?: string) =>
    after(
      runArguments({ ...made, engine: { ...FAKE_ENGINE, runtimes: engine }, runtime }, "svc-1", ["sh"]),
      "--pids-limit",
    );
  deepEqual(limits(["runc", "runsc"]), ["256"]);
  deepEqual(limits(["runsc"], "crun"), ["256"]);
  for (const runtime of ["runsc", "runsc-kvm", "/usr/bin/runsc"]) {
    deepEqual([limits([runtime]), limits(["runc"], runtime)], [["4096"], ["4096"]]);
  }
});

Deno.test({
  name: "a container whose kernel does not hide the helper says so",
  ignore: Deno.build.os === "windows",
  sanitizeOps: true,
  sanitizeResources: true,
  fn: () =>
    withFolder(async (folder) => {
      for (const [said, is_exposed] of [["ready", false], ["ready exposed", true]] as const) {
        const script = `[ "$1" = run ] || exit 0\necho ${said}\nexec cat >/dev/null`;
        const program = await fakeEngine(folder, script);
        const made = labContainer({ engine: { ...FAKE_ENGINE, program } });
        const container = await RunningContainer.start(made, "svc-test", NEVER);
        equal(container.is_exposed, is_exposed);
        await container.end();
      }
    }),
});

Deno.test({
  name: "a probe that is given up leaves no container",
  ignore: Deno.build.os === "windows",
  sanitizeOps: true,
  sanitizeResources: true,
  fn: () =>
    withFolder(async (folder) => {
      // An engine that makes a container and does not answer; it removes it when it is asked to.
      const script = [
        `if [ "$1" = run ]; then echo "$5" > ${folder}/new; mv ${folder}/new ${folder}/made; exec sleep 1000; fi`,
        `[ "$*" = "rm -f -v -t 0 $(cat ${folder}/made)" ] && rm ${folder}/made`,
      ];
      const program = await fakeEngine(folder, script.join("\n"));
      const controller = new AbortController();
      const probed = probeImage(
        labContainer({ engine: { ...FAKE_ENGINE, program } }),
        "svc-test",
        controller.signal,
      );
      const failed = rejects(probed, /enough/);
      while (!await Deno.stat(`${folder}/made`).catch(() => null)) {
        await new Promise((go) => setTimeout(go, 1));
      }
      controller.abort(new Error("enough"));
      await failed;
      await rejects(Deno.stat(`${folder}/made`), Deno.errors.NotFound);
    }),
});

Deno.test({
  ...needsContainers("a container that cannot start says why"),
  sanitizeOps: true,
  sanitizeResources: true,
  async fn() {
    const start = (more: Partial<ContainerOptions>) =>
      RunningContainer.start(labContainer(more), `svc-test-${crypto.randomUUID()}`, NEVER);
    await rejects(start({ image: "localhost/svc-none:1" }), {
      code: "infrastructure_failed",
      message: /^Cannot start a container of localhost\/svc-none:1 with (podman|docker): .*svc-none/,
    });
    await rejects(start({ runtime: "no-such-runtime" }), /no-such-runtime/);
  },
});
