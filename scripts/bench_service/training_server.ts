/** A server whose run trains while something else is measured. */

import { join } from "node:path";
import { fixturePath } from "../../tests/fixture.ts";
import { ServerProcess } from "../../tests/server_process.ts";
import { shownEvents } from "../../tests/shown_events.ts";

/** How much less of the processors a run's process gets than the server: as on a machine whose GPU does the work. */
const RUN_NICENESS = 10;

/** A server, and a run on it that trains until the server ends. */
export interface TrainingServer extends AsyncDisposable {
  url: string;
  run: string;
  server: ServerProcess;
}

/** Starts a server and an SFT run of the tiny agent without an end; resolves when it has trained an update. */
export async function startTraining(): Promise<TrainingServer> {
  const folder = await Deno.realPath(await Deno.makeTempDir({ prefix: "svc-bench-" }));
  const root = join(folder, "root"), config = join(folder, "server.toml");
  await Deno.mkdir(root);
  const model = join(root, "model.gguf"), data = join(root, "rows.jsonl");
  await Deno.copyFile(await fixturePath("models/tiny-agent-f16.gguf"), model);
  await Deno.copyFile(await fixturePath("models/tiny-agent/sft-traces.jsonl"), data);
  await Deno.writeTextFile(
    config,
    `bind = "127.0.0.1:0"\ndata_dir = ${JSON.stringify(join(folder, "data"))}\npath_roots = [${
      JSON.stringify(root)
    }]\n`,
  );
  const server = await ServerProcess.start({ config });
  const body = JSON.stringify({
    ...{ recipe: "sft", model, data, budget: { updates: 100_000 } },
    params: { "training.ctx": 640 },
  });
  const headers = { "content-type": "application/json" };
  const created = await fetch(`${server.url}/v1/runs`, { method: "POST", headers, body });
  if (created.status !== 201) throw new Error(`The run was not created: ${await created.text()}`);
  const { id } = await created.json();
  for await (const { kind } of shownEvents(`${server.url}/v1/runs/${id}/events`, 0)) {
    if (kind === "metrics") break;
  }
  await reniceChildren(server.child.pid);
  return {
    url: server.url,
    run: id,
    server,
    async [Symbol.asyncDispose]() {
      await server.stop();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

async function reniceChildren(pid: number): Promise<void> {
  const children = await new Deno.Command("ps", { args: ["-o", "pid=", "--ppid", String(pid)] }).output();
  const pids = new TextDecoder().decode(children.stdout).split(/\s+/).filter((word) => word !== "");
  for (const child of pids) {
    const threads = [...Deno.readDirSync(`/proc/${child}/task`)].map(({ name }) => name);
    await new Deno.Command("renice", { args: ["-n", String(RUN_NICENESS), "-p", ...threads], stdout: "null" })
      .output();
  }
}

/** A process's memory in bytes: resident now, and the most so far. */
export async function memoryOf(pid: number): Promise<{ now: number; peak: number }> {
  const status = await Deno.readTextFile(`/proc/${pid}/status`);
  const bytes = (field: string) => Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)![1]) * 1024;
  return { now: bytes("VmRSS"), peak: bytes("VmHWM") };
}
