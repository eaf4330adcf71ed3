import { equal, ok } from "node:assert/strict";
import { join } from "node:path";
import { killLeftovers, killProcessesOf } from "./leftovers.ts";

const LINUX = Deno.build.os === "linux";

/** A run that verifies with a command whose child outlives the command. */
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

/** Gone, or dead and not yet collected by whoever inherits orphans: it has no memory any more. */
async function isDead(pid: string): Promise<boolean> {
  const environment = await Deno.readTextFile(`/proc/${pid}/environ`).catch(() => "");
  return environment === "";
}

Deno.test({
  name: `what a killed run left running is ended, and nothing else${LINUX ? "" : " (skipped: needs Linux)"}`,
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
      // One that was killed is found until it has ended.
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

/** Ways to outlive a command: each line puts the number of a process that goes on into the file `pid`. */
const ESCAPES = [
  "sleep 1000 & echo $! > pid",
  "setsid sleep 1000 & echo $! > pid",
  "setsid sh -c 'echo $$ > pid; exec sleep 1000' & while [ ! -s pid ]; do :; done",
  // A double fork: its parent is gone, and it holds no output.
  "(setsid sh -c '(sleep 1000 > /dev/null 2>&1 & echo $! > pid) &' &); while [ ! -s pid ]; do :; done",
  // It forks on and on: each look finds another.
  "setsid sh -c 'i=0; while [ $i -lt 50 ]; do sleep 1000 & i=$((i+1)); done; echo $! > pid; wait' & " +
  "while [ ! -s pid ]; do :; done",
];

/** Runs each line as a command, with the agent worker's permissions, and prints what is left of its processes. */
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
  name: `nothing that a command started outlives it, in whatever session${
    LINUX ? "" : " (skipped: needs Linux)"
  }`,
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
        const pid = (await Deno.readTextFile(join(directory, String(i), "pid"))).trim();
        ok(/^\d+$/.test(pid) && await isDead(pid), ESCAPES[i]);
        equal(await killProcessesOf(join(directory, String(i))), 0, ESCAPES[i]);
      }
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  },
});
