import { deepEqual, equal, match, ok } from "node:assert/strict";
import { join } from "node:path";
import { ManualClock } from "../../core/clock_fake.ts";
import { withFolder } from "../../tests/folder.ts";
import { PLACE_LABEL } from "./container/owner.ts";
import { LOST_RESULT } from "./container/container_environment.ts";
import { containerEnvironments, containersText } from "./container.ts";
import { askEngine } from "./container_engine.ts";
import {
  containersOf,
  CONTROLLERS,
  fakeEngine,
  labEngine,
  labOptions,
  needsContainers,
  NO_CONTAINERS,
  podmanInfo,
} from "./container_testing.ts";
import { environmentContract, scenarioWith, TOOL_CHECKS } from "./environment_contract.ts";
import { LOST_STATE } from "./verification.ts";
import { TESTED_TOOLSETS, VERIFICATION_CHECKS } from "./verification_contract.ts";

const checks = { ...TOOL_CHECKS, ...VERIFICATION_CHECKS };
const tools = {
  ...{ table: TESTED_TOOLSETS, tools: { default: "files" } },
  scenario_toolsets: Object.keys(TESTED_TOOLSETS),
};

Deno.test({
  ...needsContainers(
    "attempts that break their verification wait for no container that they hold themselves",
  ),
  sanitizeOps: true,
  sanitizeResources: true,
  async fn() {
    const options = await labOptions({ pool: { max_live: 1 } }, { tools });
    const told: string[] = [];
    const factory = containerEnvironments({ ...options, notify: (message) => told.push(message) });
    const { signal } = new AbortController();
    const verify = { command: ["sh", "-c", ". ./work.sh"], protect: [] };
    const env = { toolset: "shell", files: { "work.sh": "exit 1" }, verify };
    const attempt = async (line: string) => {
      const environment = await factory.open(scenarioWith(env), { seed: 1, signal });
      const call = (line: string) => environment.call({ id: "c", name: "sh", arguments: { line } }, signal);
      try {
        await call(`echo '${line}' > work.sh`);
        const { reward, verification } = await environment.grade(signal);
        return [reward, verification?.ended, (await call("test -s work.sh")).result];
      } finally {
        await environment.close();
      }
    };
    const attempts = ["kill -9 $$", "exit 127", "exit 0", "exit 130"].map(attempt);
    deepEqual(await Promise.all(attempts), [
      [0, "killed", "exited 0 "],
      [0, "exited", "exited 0 "],
      [1, "exited", "exited 0 "],
      [0, "killed", "exited 0 "],
    ]);
    await factory.close();
    deepEqual(await containersOf(options.owners_folder), []);
    await Deno.remove(options.owners_folder, { recursive: true });
    deepEqual(told, [containersText(labEngine(), options.section)]);
  },
});

Deno.test("people are told which engine and runtime run containers", () => {
  const engine = {
    ...{ name: "podman", program: "podman", version: "5.1", rootless: true, cgroups: "v2" } as const,
    ...{ runtimes: ["crun", "runc"], seccomp_profile: null },
  };
  const start = 'tools and commands of environments of type "container" run in containers of podman 5.1, ';
  equal(containersText(engine, {}), `${start}cgroup v2, rootless, runtime crun`);
  equal(containersText(engine, { runtime: "runsc" }), `${start}cgroup v2, rootless, runtime runsc`);
});

Deno.test({
  ...needsContainers("an attempt that loses its container is told, ends, and is worth nothing"),
  sanitizeOps: true,
  sanitizeResources: true,
  async fn() {
    const options = await labOptions({ pool: { max_live: 1 } }, { tools });
    const factory = containerEnvironments(options), { signal } = new AbortController();
    const env = { toolset: "shell", verify: { command: ["true"], protect: [] } };
    const environment = await factory.open(scenarioWith(env), { seed: 1, signal });
    const call = (line: string) => environment.call({ id: "c", name: "sh", arguments: { line } }, signal);
    equal((await call("true")).result, "exited 0 ");
    const [name] = await containersOf(options.owners_folder), { program } = labEngine();
    await askEngine(program, ["kill", name!]);
    deepEqual(await call("echo gone"), { result: LOST_RESULT, reward: null, done: true, sandbox_lost: true });
    const { reward, failure, sandbox_lost } = await environment.grade(signal);
    deepEqual([reward, failure, sandbox_lost], [0, undefined, true]);
    const honest = await factory.open(scenarioWith(env), { seed: 1, signal });
    deepEqual((await honest.grade(signal)).sandbox_lost, undefined);
    await honest.close();
    const judged = await factory.open(scenarioWith({ summary: ["true"] }), { seed: 1, signal });
    await askEngine(program, ["kill", (await containersOf(options.owners_folder)).at(-1)!]);
    deepEqual(await judged.state(signal), { value: LOST_STATE, sandbox_lost: true });
    await judged.close();
    await environment.close();
    // The one container goes before that of the untouched workspace.
    const summarised = { toolset: "shell", files: { "tell.sh": "true" }, summary: ["sh", "tell.sh"] };
    const breaking = await factory.open(scenarioWith(summarised), { seed: 1, signal });
    const broken = { id: "c", name: "sh", arguments: { line: "echo exit 3 > tell.sh" } };
    equal((await breaking.call(broken, signal)).result, "exited 0 ");
    deepEqual(await breaking.state(signal), {
      value: "(The summary command failed in this attempt's workspace: it exited with status 3.)",
    });
    await breaking.close();
    await factory.close();
    await Deno.remove(options.owners_folder, { recursive: true });
  },
});

Deno.test({
  name: "X6: the container that looks at an image belongs to its process, whose end a sweep sees",
  ignore: Deno.build.os === "windows",
  fn: () =>
    withFolder(async (folder) => {
      const asked = join(folder, "asked"), info = podmanInfo({ rootless: true }, CONTROLLERS);
      const script =
        `case $1 in info) ${info}\n;; run) printf '%s\\n' "$@" >${asked} ;; image) echo id ;; esac`;
      const programs = [await fakeEngine(folder, script)], owners_folder = join(folder, "owners");
      const { section, ...options } = await labOptions({}, { owners_folder, programs });
      await containerEnvironments({ section, ...options }).check!(new AbortController().signal);
      const lines = (await Deno.readTextFile(asked)).split("\n");
      const place = await Deno.readTextFile(join(owners_folder, "place"));
      ok(lines.includes(`${PLACE_LABEL}=${place}`), lines.join(" "));
      match(lines[lines.indexOf("--name") + 1]!, /^svc-[0-9a-f]{12}-probe$/);
      deepEqual((await Array.fromAsync(Deno.readDir(owners_folder))).map(({ name }) => name), ["place"]);
    }),
});

/** Writes a runtime that edits the configuration of containers by a line of sed, and notes what it was asked. */
async function editingRuntime(folder: string, edit: string): Promise<{ runtime: string; asked: string }> {
  const runtime = join(folder, "runtime"), asked = join(folder, "asked");
  const script = `#!/bin/sh
for argument do
  [ "$before" != --bundle ] || sed -i '${edit}' "$argument/config.json"
  before=$argument
done
echo "$*" >>${asked}
exec ${labEngine().runtimes[0]} "$@"
`;
  await Deno.writeTextFile(runtime, script, { mode: 0o755 });
  return { runtime, asked };
}

/** A test with such a runtime. */
function runtimeTest(name: string, fn: (folder: string) => Promise<void>): void {
  const test = needsContainers(name), is_docker = NO_CONTAINERS === null && labEngine().name === "docker";
  Deno.test({
    ...is_docker ? { name: `${name} (skipped: Docker takes no runtime by its path)`, ignore: true } : test,
    sanitizeOps: true,
    sanitizeResources: true,
    fn: () => withFolder(fn),
  });
}

runtimeTest(
  "X5: the runtime that is named runs containers; one with another place to write is not used again",
  async (folder) => {
    // As crun has it on cgroup v1.
    const cgroup = String
      .raw`\("/sys/fs/cgroup","type":"\)cgroup\(","source":"\)cgroup\(","options":\)\[[^]]*]`;
    const edit = String.raw`s|${cgroup}|\1tmpfs\2tmpfs\3["uid=1000"]|`;
    const { runtime, asked } = await editingRuntime(folder, edit);
    const options = await labOptions({ runtime, pool: { max_live: 1, reuse: "workspace" } });
    const factory = containerEnvironments(options), { signal } = new AbortController();
    const state = async (line: string) => {
      const env = { summary: ["sh", "-c", line] };
      const environment = await factory.open(scenarioWith(env), { seed: 1, signal });
      const said = await environment.state(signal).finally(() => environment.close());
      return said.value;
    };
    equal(
      await state("cd /sys/fs/cgroup; chmod 700 .; echo secret > kept; chmod 500 .; cat kept"),
      "secret\n",
    );
    equal(await state("cd /sys/fs/cgroup; pwd; ls"), "/sys/fs/cgroup\n");
    await factory.close();
    ok((await Deno.readTextFile(asked)).split("\n").filter((line) => / ?create /.test(line)).length >= 2);
    deepEqual(await containersOf(options.owners_folder), []);
    await Deno.remove(options.owners_folder, { recursive: true });
  },
);

runtimeTest(
  "X2: where the hidden copy of the shell does not run, its helper works and a run says that it is exposed",
  async (folder) => {
    // As gVisor, which runs nothing that cannot be read.
    const edit = String.raw`s|\("destination":"/tmp","type":"tmpfs"[^]]*\)]|\1,"noexec"]|`;
    const { runtime } = await editingRuntime(folder, edit);
    const told: string[] = [], options = await labOptions({ runtime, pool: { max_live: 1 } });
    const factory = containerEnvironments({ ...options, notify: (message) => told.push(message) });
    const { signal } = new AbortController(),
      env = { files: { a: "1" }, verify: { command: ["test", "-s", "a"] } };
    const environment = await factory.open(scenarioWith(env), { seed: 1, signal });
    equal((await environment.grade(signal)).reward, 1);
    await environment.close();
    await factory.close();
    equal(
      told.filter((message) => message.includes("could forge its verification")).length,
      1,
      told.join("\n"),
    );
    deepEqual(await containersOf(options.owners_folder), []);
    await Deno.remove(options.owners_folder, { recursive: true });
  },
);

environmentContract({ ...needsContainers("container"), workspace: "/work", checks }, async () => {
  const clock = new ManualClock();
  const options = await labOptions({ pool: { max_live: 2 } }, { clock, tools });
  const factory = containerEnvironments(options);
  return {
    factory,
    clock,
    // Containers that are ready for the next attempt belong to none.
    leftovers: () => Promise.resolve([]),
    async close() {
      await factory.close();
      const left = await containersOf(options.owners_folder);
      await Deno.remove(options.owners_folder, { recursive: true });
      return left;
    },
  };
});
