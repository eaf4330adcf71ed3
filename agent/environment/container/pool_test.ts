/** Rows X5 to X7, and what a pool of containers promises. */

import { deepEqual, equal, match, ok, rejects } from "node:assert/strict";
import { join } from "node:path";
import { ManualClock } from "../../../core/clock_fake.ts";
import { withFolder } from "../../../tests/folder.ts";
import type { Environment } from "../environment.ts";
import { containerEnvironments } from "../container.ts";
import { askEngine, ENGINE_TIMEOUT_MS, findEngine } from "../container_engine.ts";
import {
  containersOf,
  CONTROLLERS,
  fakeEngine,
  LAB_IMAGE,
  labEngine,
  labOptions,
  needsContainers,
  podmanInfo,
} from "../container_testing.ts";
import { scenarioWith } from "../environment_contract.ts";
import { becomeOwner, PLACE_LABEL, removeOrphans } from "./owner.ts";

const NEVER = new AbortController().signal;

/** Runs a test with environments, and checks that no container is left. */
function poolTest(name: string, section: object, use: (tested: Tested) => Promise<void>): void {
  Deno.test({
    ...needsContainers(name),
    sanitizeOps: true,
    sanitizeResources: true,
    async fn() {
      const options = await labOptions(section);
      const factory = containerEnvironments(options);
      const open = (env: object, signal = NEVER) => factory.open(scenarioWith(env), { seed: 1, signal });
      const live = () => containersOf(options.owners_folder);
      try {
        await use({ open, live, close: () => factory.close() });
      } finally {
        await factory.close();
        deepEqual(await live(), [], "nothing is left");
        await Deno.remove(options.owners_folder, { recursive: true });
      }
    },
  });
}

interface Tested {
  open(env: object, signal?: AbortSignal): Promise<Environment>;
  live(): Promise<string[]>;
  close(): Promise<void>;
}

/** An attempt that leaves what it can. */
const LITTER = [
  "echo secret > /work/f; echo secret > /work/.f; mkdir -p '/work/a b/..c'; ln -s /etc '/work/a b/l'",
  "echo secret > /tmp/f; echo secret > /tmp/.f; echo secret > /dev/shm/f",
  "mkdir /work/closed; echo secret > /work/closed/f; chmod 000 /work/closed",
  "chmod 500 /tmp; export SECRET=secret; cd /tmp; umask 077",
  "setsid sh -c 'while :; do echo secret >> /work/cron; sleep 1; done' & sleep 1000 &",
];

const LOOK = "ls -A /work /tmp /dev/shm; env | grep SECRET; umask; pwd; ps -o comm | grep -x sleep; " +
  "touch /work/new /tmp/new && echo writable";

/** The summary has its own HOME. */
const CLEAN = "/dev/shm:\n\n/tmp:\n.svc_home\n\n/work:\n0022\n/work\nwritable\n";

for (const reuse of ["never", "workspace"] as const) {
  poolTest(`X5: with reuse = "${reuse}" an attempt sees nothing of the last one`, {
    pool: { max_live: 1, reuse },
  }, async ({ open, live }) => {
    const summary = ["sh", "-c", LOOK];
    const names: string[][] = [];
    for (let i = 0; i < 3; i++) {
      const environment = await open({ setup: LITTER });
      names.push(await live());
      await environment.close();
      const next = await open({ summary });
      deepEqual(await next.state(NEVER), { value: CLEAN });
      names.push(await live());
      await next.close();
    }
    ok(names.every(({ length }) => length === 1), "never more than max_live");
    equal(new Set(names.flat()).size, reuse === "never" ? 6 : 1);
  });
}

poolTest("an attempt that is verified at max_live = 1 gives its container away first", {
  pool: { max_live: 1 },
}, async ({ open, live }) => {
  const verify = { command: ["sh", "-c", "test $(cat a) = 1 && test ! -e /tmp/t"] };
  const environment = await open({ files: { a: "1" }, setup: ["echo > /tmp/t"], verify });
  equal((await environment.grade(NEVER)).reward, 1);
  equal((await live()).length, 1);
  await environment.close();
});

poolTest("a policy that edits, removes or replaces tests earns nothing, and is recorded as tampering", {
  pool: { max_live: 2 },
}, async ({ open }) => {
  const env = {
    files: { "tests/t.sh": 'test "$(cat out)" = right\n', "free.txt": "" },
    verify: { command: ["sh", "tests/t.sh"] },
  };
  const write = (environment: Environment, path: string, content: string) =>
    environment.call({ id: "1", name: "write_file", arguments: { path, content } }, NEVER);
  for (
    const [line, tampered] of [
      ["true", undefined],
      ["echo exit 0 > tests/t.sh", true],
      ["rm -r tests; mkdir -p other; echo exit 0 > other/t.sh; ln -s other tests", true],
      ["rm tests/t.sh; ln -s /bin/true tests/t.sh", true],
      ["chmod 777 tests/t.sh", true],
      ["echo changed > free.txt", undefined],
    ] as const
  ) {
    const environment = await open({ ...env, summary: ["sh", "-c", line] });
    await write(environment, "out", "wrong");
    // The summary stands for what a tool of the model may do: it runs in the attempt's own container.
    await environment.state(NEVER);
    const { reward, verification } = await environment.grade(NEVER);
    deepEqual([reward, verification?.tampered], [0, tampered], line);
    await environment.close();
  }
});

poolTest("twelve attempts with three containers: each has its own, and nothing is left", {
  pool: { max_live: 3, reuse: "workspace" },
}, async ({ open, live }) => {
  const verify = { command: ["sh", "-c", 'test "$(cat i)" = "$(cat j)" && test "$(ls -A | wc -l)" = 2'] };
  const rewards = await Promise.all(Array.from({ length: 12 }, async (_, i) => {
    const setup = [`echo ${i} > j; setsid sleep 1000 & (sleep 1000 &)`];
    const environment = await open({ files: { i: `${i}\n` }, setup, verify });
    ok((await live()).length <= 3);
    const { reward } = await environment.grade(NEVER);
    await environment.close();
    return reward;
  }));
  deepEqual(rewards, rewards.map(() => 1));
});

poolTest(
  "an aborted wait for a container leaves the others alone",
  { pool: { max_live: 1 } },
  async ({ open }) => {
    const first = await open({});
    const controller = new AbortController();
    const waiting = open({}, controller.signal);
    controller.abort(new Error("enough"));
    await rejects(waiting, /enough/);
    const third = open({});
    await first.close();
    await (await third).close();
  },
);

poolTest("closing ends containers in use and those that wait", { pool: { max_live: 1 } }, async (tested) => {
  const environment = await tested.open({});
  const waiting = rejects(tested.open({}), { code: "cancelled" });
  await tested.close();
  await waiting;
  deepEqual(await tested.live(), []);
  const call = { id: "1", name: "read_file", arguments: { path: "a" } };
  await rejects(environment.call(call, NEVER), { code: "environment_failed" });
  await environment.close();
});

/** A run that is killed while it has containers, one of which does not look at its input. */
const KILLED_RUN = `
import { containerEnvironments } from ${JSON.stringify(new URL("../container.ts", import.meta.url).href)};
import { labOptions } from ${JSON.stringify(new URL("../container_testing.ts", import.meta.url).href)};
import { scenarioWith } from ${JSON.stringify(new URL("../environment_contract.ts", import.meta.url).href)};
const options = await labOptions({ pool: { max_live: 8 } }, { owners_folder: Deno.args[0] });
const { signal } = new AbortController();
const factory = containerEnvironments(options);
const all = await Promise.all(Array.from({ length: 8 }, () => factory.open(
  scenarioWith({ summary: ["sh", "-c", "echo > started; exec sleep 1000"] }), { seed: 1, signal })));
for (const environment of all) environment.state(signal);
console.log("ready");
await new Promise((resolve) => setTimeout(resolve, 1e6));
`;

Deno.test({
  ...needsContainers("X6: the containers of a killed run are removed, and those of a live one are not"),
  sanitizeOps: true,
  sanitizeResources: true,
  fn: () =>
    withFolder(async (folder) => {
      const owners_folder = join(folder, "owners"), program = join(folder, "run.ts");
      await Deno.writeTextFile(program, KILLED_RUN);
      const config = new URL("../../../deno.json", import.meta.url).pathname;
      const run = new Deno.Command(Deno.execPath(), {
        args: ["run", "-A", "--no-check", "--config", config, program, owners_folder],
        stdin: "null",
        stdout: "piped",
      }).spawn();
      for await (const piece of run.stdout) if (new TextDecoder().decode(piece).includes("ready")) break;
      equal((await containersOf(owners_folder)).length, 8);
      const engine = labEngine(), owner = await becomeOwner(owners_folder);
      equal(await removeOrphans(engine, { folder: owners_folder, place: owner.place }), 0);
      equal((await containersOf(owners_folder)).length, 8, "its process lives");
      run.kill("SIGKILL");
      await run.status;
      await removeOrphans(engine, { folder: owners_folder, place: owner.place });
      while ((await containersOf(owners_folder)).length > 0) await new Promise((go) => setTimeout(go, 10));
      const files = (await Array.fromAsync(Deno.readDir(owners_folder))).map(({ name }) => name);
      deepEqual(files.length, 2, "the place and the living owner");
      await owner.leave();
    }),
});

Deno.test({
  name: "X7: an engine that is missing, stopped, broken or would ignore limits is refused with the cause",
  ignore: Deno.build.os === "windows",
  fn: () =>
    withFolder(async (folder) => {
      const refused = async (script: string | null, message: RegExp) => {
        const program = script === null ? "no-such-engine" : await fakeEngine(folder, script);
        await rejects(findEngine({ programs: [program] }), { code: "infrastructure_failed", message });
      };
      await refused(null, /^Cannot start containers: no-such-engine is not installed$/);
      await refused(
        "echo 'Cannot connect to the daemon' >&2; exit 1",
        /does not answer \(Cannot connect .*start it/,
      );
      await refused("echo nonsense", /gave no answer that can be read/);
      await refused("echo '{}'", /gave no answer that can be read/);
      await refused(
        podmanInfo({ rootless: true }, CONTROLLERS, "v1"),
        /runs rootless on cgroup v1, where it ignores the limits of containers; use cgroup v2/,
      );
      await refused(podmanInfo({ rootless: true }, ["memory"]), /lacks the cgroup controllers cpu, pids;/);
      await refused(
        `echo '{"ServerVersion":"","ServerErrors":["Cannot connect to the Docker daemon"]}'`,
        /does not answer \(Cannot connect to the Docker daemon\)/,
      );
      await refused(
        `echo '{"ServerVersion":"27.0","CgroupVersion":"1","SecurityOptions":["name=rootless"]}'`,
        /rootless on cgroup v1/,
      );
      await refused(`echo '{"ServerVersion":"27.0","CgroupVersion":"2","PidsLimit":false}'`, /lacks .*pids/);
      const good = await fakeEngine(folder, podmanInfo({ rootless: true }, CONTROLLERS));
      deepEqual(await findEngine({ programs: ["no-such-engine", good] }), {
        ...{
          name: "podman",
          program: good,
          version: "5.0.0",
          rootless: true,
          cgroups: "v2",
          runtimes: ["crun"],
          seccomp_profile: null,
        },
      });
    }),
});

Deno.test({
  name: "X7: an engine that gives no answer is refused at ENGINE_TIMEOUT_MS",
  ignore: Deno.build.os === "windows",
  fn: () =>
    withFolder(async (folder) => {
      const clock = new ManualClock();
      const program = await fakeEngine(folder, "exec sleep 1000");
      const asked = rejects(askEngine(program, ["info"], { clock }), {
        code: "infrastructure_failed",
        message: /gave no answer within 15 s/,
      });
      while (clock.sleeping === 0) await new Promise((resolve) => setTimeout(resolve, 1));
      await clock.advance(ENGINE_TIMEOUT_MS - 1);
      equal(clock.sleeping, 1);
      await clock.advance(1);
      await asked;
    }),
});

Deno.test({
  name: "X7: an engine that does not list or remove containers is no success of the sweep",
  ignore: Deno.build.os === "windows",
  fn: () =>
    withFolder(async (folder) => {
      const sweep = async (script: string) => {
        const program = await fakeEngine(folder, script);
        const engine = { ...await findEngine({ programs: [program] }) };
        return await removeOrphans(engine, { folder, place: "p" });
      };
      const info = `if [ "$1" = info ]; then ${podmanInfo({ rootless: true }, CONTROLLERS)}\nexit; fi`;
      const failure = (what: string) => ({
        code: "infrastructure_failed",
        message: new RegExp(`^Cannot ${what} the containers of runs that have ended: .*: no store$`),
      });
      await rejects(sweep(`${info}\necho no store >&2; exit 125`), failure("list"));
      const list = `${info}\nif [ "$1" = ps ]; then echo c1 svc-0123456789ab-1; exit; fi`;
      await rejects(sweep(`${list}\necho no store >&2; exit 125`), failure("remove"));
      equal(await sweep(`${list}\n[ "$*" = "rm -f -v -t 0 c1" ]`), 1);
      // It ends by itself, so that removing it fails.
      const gone =
        `${info}\nif [ "$1" = ps ]; then [ -e ${folder}/gone ] || echo c1 svc-0123456789ab-1; exit; fi`;
      equal(await sweep(`${gone}\necho > ${folder}/gone; echo 'no such container' >&2; exit 1`), 1);
    }),
});

Deno.test({
  name: "X6: the folder of owners is one that nobody else may change",
  ignore: Deno.build.os === "windows",
  fn: () =>
    withFolder(async (folder) => {
      const [mine, link, open] = ["mine", "link", "open"].map((name) => join(folder, name));
      const owner = await becomeOwner(mine!);
      equal((await Deno.stat(mine!)).mode! & 0o777, 0o700);
      await owner.leave();
      const refused = { code: "infrastructure_failed", message: /only this user may change; remove it$/ };
      await Deno.symlink(mine!, link!);
      await rejects(becomeOwner(link!), refused);
      await Deno.mkdir(open!);
      await Deno.chmod(open!, 0o1777);
      await rejects(becomeOwner(open!), refused);
      equal((await Deno.stat(open!)).mode! & 0o7777, 0o1777, "it is left as it is");
      if (Deno.uid() === 0) {
        await Deno.chown(mine!, 1, 1);
        await rejects(becomeOwner(mine!), refused);
      }
    }),
});

Deno.test({
  name: "X7: with DOCKER_HOST the engine that it names is asked first, and no other when it does not answer",
  ignore: Deno.build.os === "windows",
  fn: () =>
    withFolder(async (folder) => {
      const names = { PATH: Deno.env.get("PATH"), DOCKER_HOST: Deno.env.get("DOCKER_HOST") };
      const docker = `cat <<'END'\n{"ServerVersion":"27.0","CgroupVersion":"2"}\nEND`;
      const write = (name: string, script: string) =>
        Deno.writeTextFile(join(folder, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
      try {
        Deno.env.set("PATH", `${folder}:${names.PATH}`);
        Deno.env.delete("DOCKER_HOST");
        await write("podman", podmanInfo({ rootless: false }, CONTROLLERS));
        await write("docker", docker);
        equal((await findEngine()).name, "podman");
        Deno.env.set("DOCKER_HOST", "unix:///none");
        equal((await findEngine()).name, "docker");
        await write("docker", "echo refused >&2; exit 1");
        await rejects(findEngine(), /^ServiceError.*: docker does not answer \(refused\); start it$/);
        await Deno.remove(join(folder, "docker"));
        Deno.env.set("PATH", folder);
        await write("podman", podmanInfo({ rootless: false }, CONTROLLERS).replace("cat", "/bin/cat"));
        equal((await findEngine()).name, "podman");
      } finally {
        for (const [name, value] of Object.entries(names)) {
          if (value === undefined) Deno.env.delete(name);
          else Deno.env.set(name, value);
        }
      }
    }),
});

poolTest(
  "a copy of a workspace has an end, also of files without content",
  { pool: { max_live: 2 } },
  async (tested) => {
    const verify = { command: ["true"] };
    const environment = await tested.open({ verify, summary: ["sh", "-c", "truncate -s 300M sparse"] });
    await environment.state(NEVER);
    const { reward, verification } = await environment.grade(NEVER);
    equal(reward, 0);
    match(
      verification!.output,
      /cannot copy the workspace: it has more than 268435456 bytes \(MAX_COPY_BYTES/,
    );
    await environment.close();
  },
);

Deno.test({
  ...needsContainers("X7: an image that is missing is refused with the command that gets it"),
  async fn() {
    const check = async (section: object) => {
      const options = await labOptions(section);
      try {
        await containerEnvironments(options).check!(NEVER);
      } finally {
        await Deno.remove(options.owners_folder, { recursive: true });
      }
    };
    await check({});
    await rejects(check({ image: "localhost/svc-none:1" }), {
      code: "infrastructure_failed",
      message:
        /^Cannot use the image localhost\/svc-none:1: (podman|docker) does not have it .*\1 pull localhost/,
    });
    await rejects(check({ runtime: "no-such-runtime" }), /Cannot start a container .*no-such-runtime/);
    const { program } = labEngine();
    const none = ["run", "--network", "none", "--rm", LAB_IMAGE, "true"];
    equal((await askEngine(program, none)).code, 0);
    ok(PLACE_LABEL.startsWith("svc."));
  },
});
