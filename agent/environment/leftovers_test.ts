import { deepEqual, equal, ok, rejects } from "node:assert/strict";
import { join } from "node:path";
import type { Clock } from "../../core/clock.ts";
import { ManualClock, WakingClock } from "../../core/clock_fake.ts";
import { withFolder } from "../../tests/folder.ts";
import { isDead } from "../../tests/process_state.ts";
import { DRAIN_TIMEOUT_MS, runCommand, SHORT_COMMAND_MS } from "./command.ts";
import {
  canFindLeftovers,
  killLeftovers,
  killProcessesOf,
  LOOK_TIMEOUT_MS,
  MAX_SWEEPS,
  MAX_UNSURE_LOOKS,
  sweep,
} from "./leftovers.ts";

const LINUX = Deno.build.os === "linux";
const skipped = LINUX ? "" : " (skipped: needs Linux)";

/** A program that runs a verification whose child outlives its command. */
const RUN = `
import { systemClock } from ${JSON.stringify(new URL("../../core/clock.ts", import.meta.url).href)};
import { runCommand } from ${JSON.stringify(new URL("./command.ts", import.meta.url).href)};
const signal = new AbortController().signal;
const line = "sleep 333 & echo $! > pid; mv pid started; wait";
await runCommand({ argv: ["sh", "-c", line], cwd: Deno.args[0], timeout_ms: 300_000, clock: systemClock, signal });
`;

async function textOnceThere(path: string): Promise<string> {
  while (true) {
    const text = await Deno.readTextFile(path).catch(() => null);
    if (text !== null) return text.trim();
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

/** The ids of processes with a file in `/proc` that contains a text. */
async function processesThatHold(text: string, file: "environ" | "cmdline"): Promise<number[]> {
  const found: number[] = [];
  for await (const { name } of Deno.readDir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const held = await Deno.readTextFile(`/proc/${name}/${file}`).catch(() => "");
    if (held.includes(text)) found.push(Number(name));
  }
  return found;
}

/** Waits until no process is found. A killed process is visible for a while; the number of rounds is limited. */
async function onceNone(look: () => Promise<number[]>): Promise<number[]> {
  let found = await look();
  for (let round = 0; found.length > 0 && round < 5000; round++) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    found = await look();
  }
  return found;
}

/** A process of a workspace that does not come from a command of this test. */
function startIn(workspace: string): Deno.ChildProcess {
  return new Deno.Command("sleep", { args: ["1000"], env: { HOME: workspace } }).spawn();
}

/** Whether the next process ids are still greater than this one; they wrap around when used up. */
async function isBefore(pid: number): Promise<boolean> {
  const later = new Deno.Command("true").spawn();
  await later.status;
  return later.pid > pid;
}

Deno.test({
  name: `the processes of a killed run are ended, and no others${skipped}`,
  ignore: !LINUX,
  sanitizeOps: true,
  sanitizeResources: true,
  async fn() {
    const directory = await Deno.makeTempDir();
    try {
      const workspace = join(directory, "svc-workspace-1");
      await Deno.mkdir(workspace);
      await Deno.writeTextFile(join(directory, "run.ts"), RUN);
      const run = new Deno.Command(Deno.execPath(), {
        args: ["run", "-A", "--no-check", "--no-lock", join(directory, "run.ts"), workspace],
        stdin: "null",
        stdout: "null",
      }).spawn();
      const child = await textOnceThere(join(workspace, "started"));
      const home = await Deno.makeTempDir({ dir: directory });
      const bystander = new Deno.Command("sleep", { args: ["333"], env: { HOME: home } }).spawn();
      run.kill("SIGKILL");
      await run.status;
      equal(await isDead(child), false, "the parent's death does not reach it");
      ok(await killLeftovers(directory) >= 1);
      while (!await isDead(child)) await new Promise((resolve) => setTimeout(resolve, 1));
      // A killed process is found until it is reaped.
      while (await killLeftovers(directory) > 0) await new Promise((resolve) => setTimeout(resolve, 1));
      equal(await killLeftovers(join(directory, "absent")), 0);
      equal(await isDead(String(bystander.pid)), false);
      bystander.kill("SIGKILL");
      await bystander.status;
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  },
});

/** Ways to outlive a command: each line writes the id of a surviving process to the file `pid`. */
const ESCAPES = [
  "sleep 1000 & echo $! > pid",
  "setsid sleep 1000 & echo $! > pid",
  "setsid sh -c 'echo $$ > pid; exec sleep 1000' & while [ ! -s pid ]; do :; done",
  // A double fork: its parent is gone, and it does not hold the output.
  "(setsid sh -c '(sleep 1000 > /dev/null 2>&1 & echo $! > pid) &' &); while [ ! -s pid ]; do :; done",
  // It forks on and on: each search finds a new process.
  "setsid sh -c 'i=0; while [ $i -lt 50 ]; do sleep 1000 & i=$((i+1)); done; echo $! > pid; wait' & " +
  "while [ ! -s pid ]; do :; done",
];

/**
 * A program that runs each line as a command with the agent worker's permissions, and prints the surviving processes.
 */
const ESCAPING_RUN = `
import { systemClock } from ${JSON.stringify(new URL("../../core/clock.ts", import.meta.url).href)};
import { runCommand } from ${JSON.stringify(new URL("./command.ts", import.meta.url).href)};
const signal = new AbortController().signal;
const codes = [];
for (const [i, line] of ${JSON.stringify(ESCAPES)}.entries()) {
  const cwd = Deno.args[0] + "/" + i;
  await Deno.mkdir(cwd);
  const { code } = await runCommand({ argv: ["sh", "-c", line], cwd, timeout_ms: 300_000, clock: systemClock, signal });
  codes.push(code);
}
console.log(JSON.stringify(codes));
`;

Deno.test({
  name: `no process of a command outlives it, in any session${skipped}`,
  ignore: !LINUX,
  sanitizeOps: true,
  sanitizeResources: true,
  async fn() {
    const directory = await Deno.realPath(await Deno.makeTempDir());
    try {
      await Deno.writeTextFile(join(directory, "run.ts"), ESCAPING_RUN);
      // Without all permissions /proc cannot be read, as in the agent worker.
      const permissions = ["--allow-read", `--allow-write=${directory}`, "--allow-run"];
      const run = await new Deno.Command(Deno.execPath(), {
        args: ["run", ...permissions, "--no-check", "--no-lock", join(directory, "run.ts"), directory],
        stdin: "null",
        stderr: "inherit",
      }).output();
      equal(new TextDecoder().decode(run.stdout), `${JSON.stringify(ESCAPES.map(() => 0))}\n`);
      for (const i of ESCAPES.keys()) {
        const workspace = join(directory, String(i));
        ok(/^\d+$/.test((await Deno.readTextFile(join(workspace, "pid"))).trim()), ESCAPES[i]);
        deepEqual(await onceNone(() => processesThatHold(`HOME=${workspace}\0`, "environ")), [], ESCAPES[i]);
      }
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  },
});

/** Ways to leave with other variables, or from another folder. */
const DISGUISES = [
  "HOME=/x SVC_WORKSPACE=/x setsid sleep 1000 >/dev/null 2>&1 & echo $! > pid",
  "mkdir -p d/e; (cd d/e; exec env -i /usr/bin/setsid -f /bin/sleep 1000); pgrep -n sleep > pid",
  "mkdir gone; (cd gone; env -i /bin/sleep 1000 >/dev/null 2>&1 & echo $! > ../pid); rmdir gone",
  '(cd /; setsid sleep 1000 >/dev/null 2>&1 & echo $! > "$OLDPWD/pid")',
];

Deno.test({
  name: `a process with another HOME is found by where it works${skipped}`,
  ignore: !LINUX,
  fn: () =>
    withFolder(async (folder) => {
      const root = await Deno.realPath(folder), { signal } = new AbortController();
      const cwd = join(root, "a[1]*"), beside = join(root, "a[1]*2"), home = join(root, "home");
      for (const path of [cwd, beside, home]) await Deno.mkdir(path);
      const bystander = new Deno.Command("sleep", { args: ["1000"], cwd: beside }).spawn();
      for (const line of DISGUISES) {
        for (const more of [{}, { home }]) {
          const clock = new ManualClock();
          await runCommand({ argv: ["sh", "-c", line], cwd, timeout_ms: 1000, clock, signal, ...more });
          const pid = (await Deno.readTextFile(join(cwd, "pid"))).trim();
          ok(/^\d+$/.test(pid), line);
          deepEqual(await onceNone(async () => await isDead(pid) ? [] : [Number(pid)]), [], line);
        }
      }
      equal(await isDead(String(bystander.pid)), false);
      bystander.kill("SIGKILL");
      await bystander.status;
    }),
});

/** Ends its first thread; another one stays. */
const WITHOUT_FIRST_THREAD = `use threads; threads->create(sub { sleep 1000 });
syscall(${Deno.build.arch === "x86_64" ? 60 : 93}, 0)`;

async function hasPerlThreads(): Promise<boolean> {
  try {
    return (await new Deno.Command("perl", { args: ["-Mthreads", "-e", "1"], stderr: "null" }).output())
      .success;
  } catch {
    return false;
  }
}

const PERL = LINUX && await hasPerlThreads();

Deno.test({
  name: `a process whose first thread has ended is found${PERL ? "" : " (skipped: needs perl with threads)"}`,
  ignore: !PERL,
  fn: () =>
    withFolder(async (folder) => {
      const workspace = await Deno.realPath(folder);
      for (const more of [{ env: { HOME: workspace } }, { cwd: workspace, env: { HOME: "/x" } }]) {
        const child = new Deno.Command("perl", { args: ["-e", WITHOUT_FIRST_THREAD], ...more }).spawn();
        const stat = () => Deno.readTextFile(`/proc/${child.pid}/stat`);
        while (!/\) Z /.test(await stat())) await new Promise((go) => setTimeout(go, 1));
        equal(await killProcessesOf(`${workspace}2`), 0);
        equal(await killProcessesOf(workspace), 1);
        equal((await child.status).signal, "SIGKILL");
      }
    }),
});

Deno.test({
  name: `a process whose memory cannot be read delays the search by at most LOOK_TIMEOUT_MS${skipped}`,
  ignore: !LINUX,
  fn: () =>
    withFolder(async (directory) => {
      // Reading this file blocks, as when the system blocks access to a process's memory.
      await Deno.mkdir(join(directory, "77"));
      ok((await new Deno.Command("mkfifo", { args: [join(directory, "77/environ")] }).output()).success);
      const clock = new ManualClock();
      let ended = false;
      const killing = killProcessesOf("/nowhere", { clock, proc: directory }).finally(() => ended = true);
      const refused = rejects(killing, {
        code: "environment_failed",
        message: /^Cannot look for processes that a command left: .* could not be read within 30 s/,
      });
      await clock.advance(LOOK_TIMEOUT_MS - 1);
      equal(ended, false);
      equal(clock.sleeping, 1);
      await clock.advance(1);
      await refused;
      deepEqual(await onceNone(() => processesThatHold(`${directory}/77/environ`, "cmdline")), []);
    }),
});

Deno.test({
  name: `searches that begin while another looks share the next look${skipped}`,
  ignore: !LINUX,
  fn: () =>
    withFolder(async (proc) => {
      // A look waits at this file until somebody has written it.
      await new Deno.Command("sh", { args: ["-c", "mkdir 77; mkfifo 77/environ"], cwd: proc }).output();
      let ended = 0;
      const searches = [1, 2, 3].map(() => killProcessesOf("/a", { proc }).then(() => ended++));
      for (const count of [1, 3]) {
        await Deno.writeTextFile(join(proc, "77/environ"), "PATH=/bin\0");
        await Promise.all(searches.slice(0, count));
        equal(ended, count, "what is seen answers no later search");
      }
    }),
});

Deno.test({
  name: `a search that does not find even itself is reported as impossible${skipped}`,
  ignore: !LINUX,
  fn: () =>
    withFolder(async (directory) => {
      equal(await canFindLeftovers(), true);
      await Deno.mkdir(join(directory, "77"));
      await Deno.writeTextFile(join(directory, "77/environ"), "HOME=/nowhere\0");
      equal(await canFindLeftovers({ proc: directory }), false);
      equal(await killProcessesOf("/nowhere", { proc: directory }), 0);
    }),
});

Deno.test({
  name: `a process that replaces its program again and again is found each time${skipped}`,
  ignore: !LINUX,
  fn: () =>
    withFolder(async (workspace) => {
      const program = join(workspace, "again");
      await Deno.writeTextFile(program, '#!/bin/sh\nexec "$0"\n', { mode: 0o755 });
      for (let round = 0; round < 40; round++) {
        const child = new Deno.Command(program, { clearEnv: true, env: { HOME: workspace } }).spawn();
        ok(await killProcessesOf(workspace) >= 1, `round ${round}`);
        equal((await child.status).signal, "SIGKILL");
      }
    }),
});

Deno.test({
  name: `a process without an environment is left alone, and waited for once${skipped}`,
  ignore: !LINUX,
  fn: () =>
    withFolder(async (workspace) => {
      const bare = new Deno.Command("/usr/bin/env", { args: ["-i", "/bin/sleep", "1000"] }).spawn();
      equal(await killProcessesOf(workspace), 0);
      equal(await isDead(String(bare.pid)), false);
      bare.kill("SIGKILL");
      equal((await bare.status).signal, "SIGKILL");
    }),
});

/** Looks that find processes, whose ids no real process has; returns how many there were, and what was killed. */
async function looksOf(found: number, unsure: number): Promise<{ looks: number; killed: number[] }> {
  const killed: number[] = [];
  let looks = 0;
  const look = () => {
    const pid = 2 ** 30 + looks;
    return Promise.resolve({
      found: looks < found ? [pid] : [],
      unsure: looks++ < found + unsure ? [pid] : [],
    });
  };
  equal(await sweep(look, (pid) => killed.push(pid)), killed.length);
  return { looks, killed };
}

Deno.test("a search that finds processes is repeated until it finds none, up to MAX_SWEEPS times", async () => {
  deepEqual(await looksOf(2, 0), { looks: 3, killed: [2 ** 30, 2 ** 30 + 1] });
  const { looks, killed } = await looksOf(Infinity, 0);
  deepEqual([looks, killed.length], [MAX_SWEEPS, MAX_SWEEPS]);
});

Deno.test("a search in doubt is repeated up to MAX_UNSURE_LOOKS times", async () => {
  deepEqual(await looksOf(0, 3), { looks: 4, killed: [] });
  deepEqual(await looksOf(1, Infinity), { looks: 1 + MAX_UNSURE_LOOKS, killed: [2 ** 30] });
});

Deno.test({
  name: `only processes with greater ids are searched, unless ids have wrapped around${skipped}`,
  ignore: !LINUX,
  fn: () =>
    withFolder(async (workspace) => {
      const left = startIn(workspace);
      const spared = await killProcessesOf(workspace, { after: left.pid });
      if (await isBefore(left.pid)) equal(spared, 0);
      ok(await killProcessesOf(workspace, { after: left.pid - 1 }) >= 1);
      equal((await left.status).signal, "SIGKILL");
      const other = startIn(workspace);
      // Greater than every id, as after ids have wrapped around.
      ok(await killProcessesOf(workspace, { after: 2 ** 30 }) >= 1);
      equal((await other.status).signal, "SIGKILL");
    }),
});

for (const [elapsed_ms, is_found] of [[SHORT_COMMAND_MS - 1, false], [SHORT_COMMAND_MS, true]] as const) {
  Deno.test({
    name: `after a command of ${elapsed_ms} ms ${
      is_found ? "all" : "younger"
    } processes are looked at${skipped}`,
    ignore: !LINUX,
    fn: () =>
      withFolder(async (workspace) => {
        const older = startIn(workspace);
        const still = new ManualClock();
        let now_ms = 0;
        const clock: Clock = {
          wall_ms: () => still.wall_ms(),
          monotonic_ms: () => now_ms += elapsed_ms,
          sleep: (ms, signal) => still.sleep(ms, signal),
        };
        const { signal } = new AbortController();
        await runCommand({ argv: ["true"], cwd: workspace, timeout_ms: 1000, clock, signal });
        const left = () => processesThatHold(`HOME=${workspace}\0`, "environ");
        if (is_found) deepEqual(await onceNone(left), []);
        else if (await isBefore(older.pid)) deepEqual(await left(), [older.pid]);
        if (!is_found) older.kill("SIGKILL");
        await older.status;
      }),
  });
}

Deno.test({
  name:
    `the output of a process that cannot be found is waited for no longer than DRAIN_TIMEOUT_MS${skipped}`,
  ignore: !LINUX,
  fn: () =>
    withFolder(async (workspace) => {
      const clock = new WakingClock(), { signal } = new AbortController();
      // It has another HOME, folder and session, and holds the output.
      const line =
        "HOME=/ setsid sh -c 'echo $$ > pid; cd /; exec sleep 1000' & while [ ! -s pid ]; do :; done; echo said";
      let ended = false;
      const options = { argv: ["sh", "-c", line], cwd: workspace, timeout_ms: 5000, clock, signal };
      const running = runCommand(options).finally(() => ended = true);
      await clock.sleeper(DRAIN_TIMEOUT_MS);
      await clock.advance(DRAIN_TIMEOUT_MS - 1);
      equal(ended, false);
      await clock.advance(1);
      deepEqual([(await running).stdout, (await running).ended], ["said\n", "exited"]);
      Deno.kill(Number(await textOnceThere(join(workspace, "pid"))), "SIGKILL");
    }),
});
