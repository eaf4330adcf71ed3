import { equal, ok } from "node:assert/strict";
import { join } from "node:path";
import { killLeftovers } from "./leftovers.ts";

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

/** Gone, or dead and not yet collected by whoever inherits orphans. */
async function isDead(pid: string): Promise<boolean> {
  const stat = await Deno.readTextFile(`/proc/${pid}/stat`).catch(() => null);
  return stat === null || /\) [ZX] /.test(stat);
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
