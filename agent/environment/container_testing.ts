/** Containers for tests: an image of two megabytes, made without a registry from the machine's own busybox. */

import { join } from "node:path";
import { environmentSchema } from "../../config/sections/environment.ts";
import { systemClock } from "../../core/clock.ts";
import type { ContainerOptions } from "./container/run_arguments.ts";
import { writeProfile } from "./container/seccomp.ts";
import type { ContainerEnvironmentOptions } from "./container.ts";
import { askEngine, type ContainerEngine, findEngine } from "./container_engine.ts";

/** A program of the Debian package busybox-static. */
const BUSYBOX = "/bin/busybox";

/** The name of the image, by the shape of its files below. */
export const LAB_IMAGE = "localhost/svc-lab:1";

/**
 * What Podman needs where a machine's cgroups are of version 1 beside 2, and the rights to raise limits are missing: as
 * in many virtual machines. The number of processes is one of the user, so of all containers: eight of them may reach
 * theirs at once. Only for tests; a user's engine is as the user set it up.
 */
const CONTAINERS_CONF = `[containers]
default_ulimits = ["nofile=1024:1024", "nproc=8192:8192"]
log_driver = "none"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
`;

/** Whether tests must fail where no engine can run. */
export const REQUIRE_CONTAINERS = Deno.env.get("REQUIRE_CONTAINERS") === "1";

async function prepareMachine(): Promise<void> {
  if (Deno.build.os !== "linux" || Deno.uid() !== 0 || Deno.env.has("CONTAINERS_CONF")) return;
  if (await Deno.stat("/sys/fs/cgroup/cgroup.controllers").catch(() => null)) return;
  const path = join(await Deno.makeTempDir({ prefix: "svc-containers-conf-" }), "containers.conf");
  await Deno.writeTextFile(path, CONTAINERS_CONF);
  Deno.env.set("CONTAINERS_CONF", path);
  globalThis.addEventListener("unload", () => {
    Deno.removeSync(join(path, ".."), { recursive: true });
    Deno.env.delete("CONTAINERS_CONF");
  });
}

/** An engine with the image for tests. @throws When there is none. */
async function prepareLab(): Promise<ContainerEngine> {
  await prepareMachine();
  const engine = await findEngine();
  const has = await askEngine(engine.program, ["image", "inspect", "--format", "{{.Id}}", LAB_IMAGE]);
  if (has.code === 0) return engine;
  if (!await Deno.stat(BUSYBOX).catch(() => null)) {
    throw new Error(`${BUSYBOX} is missing; apt-get install -y busybox-static`);
  }
  const folder = await Deno.makeTempDir();
  try {
    for (const name of ["bin", "etc", "work", "tmp", "proc", "sys", "dev", "run"]) {
      await Deno.mkdir(join(folder, "root", name), { recursive: true });
    }
    const root = join(folder, "root");
    await Deno.copyFile(BUSYBOX, join(root, "bin/busybox"));
    await Deno.chmod(join(root, "bin/busybox"), 0o755);
    const listed = await new Deno.Command(BUSYBOX, { args: ["--list"] }).output();
    for (const name of new TextDecoder().decode(listed.stdout).trim().split("\n")) {
      if (name !== "busybox") await Deno.symlink("busybox", join(root, "bin", name));
    }
    await Deno.writeTextFile(
      join(root, "etc/passwd"),
      "root:x:0:0::/:/bin/sh\nsandbox:x:1000:1000::/work:/bin/sh\n",
    );
    await Deno.writeTextFile(join(root, "etc/group"), "root:x:0:\nsandbox:x:1000:\n");
    await new Deno.Command("tar", { args: ["-C", root, "-cf", join(folder, "root.tar"), "."] }).output();
    const imported = await askEngine(engine.program, ["import", join(folder, "root.tar"), LAB_IMAGE]);
    if (imported.code !== 0) throw new Error(imported.stderr);
    return engine;
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const prepared: { engine: ContainerEngine | null; reason: string } = await prepareLab().then(
  (engine) => ({ engine, reason: "" }),
  (error) => ({ engine: null, reason: error instanceof Error ? error.message : String(error) }),
);

/** The system calls of containers, as an environment allows them; undefined: the engine's own list applies. */
export const LAB_PROFILE: string | undefined = await labProfile();

async function labProfile(): Promise<string | undefined> {
  const theirs = prepared.engine?.seccomp_profile;
  if (!theirs) return undefined;
  const folder = await Deno.makeTempDir({ prefix: "svc-seccomp-" }), path = join(folder, "seccomp.json");
  globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
  return await writeProfile(theirs, path) ? path : undefined;
}

/** Why tests with containers cannot run here; null when they can. */
export const NO_CONTAINERS: string | null = prepared.engine ? null : prepared.reason;

/** The engine. @throws Where there is none. */
export function labEngine(): ContainerEngine {
  if (!prepared.engine) throw new Error(`containers are required: ${prepared.reason}`);
  return prepared.engine;
}

/** The options of a test with real containers: without an engine it is skipped, or fails if engines are required. */
export function needsContainers(name: string): Pick<Deno.TestDefinition, "name" | "ignore"> {
  if (NO_CONTAINERS === null || REQUIRE_CONTAINERS) return { name, ignore: false };
  return { name: `${name} (skipped: ${NO_CONTAINERS.replaceAll("\n", " ")})`, ignore: true };
}

/** Options of environments in the image for tests. */
export async function labOptions(
  section: object = {},
  more: Partial<ContainerEnvironmentOptions> = {},
): Promise<ContainerEnvironmentOptions & { owners_folder: string }> {
  return {
    section: environmentSchema.parse({
      ...{ type: "container", profile: "custom", image: LAB_IMAGE },
      limits: { memory_mb: 256 },
      ...section,
    }),
    tools: { tools: { default: "files" }, scenario_toolsets: [] },
    concurrent_rollouts: 2,
    clock: systemClock,
    owners_folder: await Deno.makeTempDir({ prefix: "svc-owners-" }),
    ...more,
  };
}

/** A container in the image for tests, with little memory. */
export function labContainer(more: Partial<ContainerOptions> = {}): ContainerOptions {
  const { engine = labEngine() } = more;
  return {
    seccomp_profile: LAB_PROFILE,
    image: LAB_IMAGE,
    allow_network: false,
    limits: { cpus: 1, memory_mb: 128 },
    labels: { "svc.test": "sandbox" },
    ...more,
    engine,
  };
}

/** An engine that is a program of a test. */
export const FAKE_ENGINE: ContainerEngine = {
  name: "podman",
  program: "none",
  version: "0",
  rootless: false,
  cgroups: "v2",
  runtimes: [],
  seccomp_profile: null,
};

/** Writes a shell script as the program of an engine, and returns its path. */
export async function fakeEngine(folder: string, script: string): Promise<string> {
  const path = join(folder, "engine");
  await Deno.writeTextFile(path, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return path;
}

/** The line of a script that answers `podman info`. */
export const podmanInfo = (security: object, controllers: string[], cgroupVersion = "v2") =>
  `cat <<'END'\n${
    JSON.stringify({
      host: { cgroupVersion, cgroupControllers: controllers, security, ociRuntime: { name: "crun" } },
      version: { Version: "5.0.0" },
    })
  }\nEND`;

/** The controllers that limits need. */
export const CONTROLLERS = ["cpu", "memory", "pids"];

/** The containers that belong to a folder of owners, by name. */
export async function containersOf(owners_folder: string): Promise<string[]> {
  const place = await Deno.readTextFile(join(owners_folder, "place")).catch(() => "none");
  const filter = `label=svc.place=${place.trim()}`;
  const { stdout } = await askEngine(labEngine().program, [
    "ps",
    "-a",
    "--filter",
    filter,
    "--format",
    "{{.Names}}",
  ]);
  return stdout.split("\n").filter((name) => name !== "").sort();
}

/** Whether the engine has an image. */
export async function hasImage(image: string): Promise<boolean> {
  const args = ["image", "inspect", "--format", "{{.Id}}", image];
  return (await askEngine(labEngine().program, args)).code === 0;
}
