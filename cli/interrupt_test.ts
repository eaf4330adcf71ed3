/** The real program on a real device, told to leave: by signals, and by a terminal that disappears. */

import assert from "node:assert/strict";
import { gpuTest } from "../kernels/testing.ts";
import type { RunEvent } from "../runs/event.ts";

const ROOT = new URL("..", import.meta.url).pathname;
const MODELS = `${ROOT}fixtures/models/`;

const SFT = `[run]
algorithm = "sft"
[model]
path = "${MODELS}tiny-agent-f16.gguf"
[lora]
rank = 2
[sft]
data = "${MODELS}tiny-agent/sft-traces.jsonl"
[training]
ctx = 640
batch_tokens = 640
micro_batch_tokens = 640
updates = 50
[checkpoint]
every_updates = 100
`;

const RUNNING = '"state":"running"';

async function inFolder(test: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(`${folder}/run.toml`, SFT);
    await test(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** A shell line with the program as `svc`, in a process group of its own that a terminal's signals do not reach. */
function start(folder: string, line: string): Deno.ChildProcess {
  const svc = `"${Deno.execPath()}" run -A --no-check "${ROOT}cli.ts"`;
  return new Deno.Command("sh", {
    args: ["-c", line.replaceAll("svc", () => svc)],
    cwd: folder,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

/** Reads a stream until it holds a text, or to its end; calling again reads on. */
function reader(stream: ReadableStream<Uint8Array>): (text?: string) => Promise<string> {
  const pieces = stream.pipeThrough(new TextDecoderStream()).getReader();
  let all = "";
  return async (text) => {
    while (text === undefined || !all.includes(text)) {
      const { value, done } = await pieces.read();
      if (done) break;
      all += value;
    }
    return all;
  };
}

async function eventsOf(folder: string): Promise<RunEvent[]> {
  const text = await Deno.readTextFile(`${folder}/runs/run/events.jsonl`);
  return text.trimEnd().split("\n").map((line) => JSON.parse(line) as RunEvent);
}

/** The run left as it should: its update finished, a checkpoint written, the end in the log. */
async function assertLeft(folder: string): Promise<void> {
  const events = await eventsOf(folder);
  const end = events.at(-1)!;
  assert.ok(end.kind === "end" && end.state !== "failed", JSON.stringify(end));
  const checkpoint = events.find((event) => event.kind === "checkpoint");
  assert.ok(
    checkpoint?.kind === "checkpoint" && checkpoint.update === end.update,
    "its checkpoint is the newest",
  );
  assert.ok((await Deno.stat(`${folder}/runs/run/checkpoints/${checkpoint.name}`)).isDirectory);
}

for (const signal of ["SIGTERM", "SIGHUP"] as const) {
  gpuTest(
    `${signal} finishes the update, writes a checkpoint and leaves with 130`,
    () =>
      inFolder(async (folder) => {
        const child = start(folder, "exec svc train run.toml --json");
        const out = reader(child.stdout), err = reader(child.stderr);
        await out(RUNNING);
        child.kill(signal);
        await Promise.all([out(), err()]);
        assert.equal((await child.status).code, 130, await err());
        await assertLeft(folder);
      }),
  );
}

for (const signals of [["SIGINT", "SIGTERM"], ["SIGTERM", "SIGHUP"], ["SIGHUP", "SIGINT"]] as const) {
  gpuTest(`${signals.join(", then ")} leaves at once`, () =>
    inFolder(async (folder) => {
      const child = start(folder, "exec svc train run.toml --json");
      const out = reader(child.stdout), err = reader(child.stderr);
      await out(RUNNING);
      child.kill(signals[0]);
      await err("leaves at once");
      child.kill(signals[1]);
      await Promise.all([out(), err()]);
      const { code, signal } = await child.status;
      assert.deepEqual([code, signal], [130, null]);
      const events = await eventsOf(folder);
      assert.ok(!events.some(({ kind }) => kind === "end"), "nothing was waited for");
    }));
}

gpuTest(
  "a run whose terminal disappears finishes its update and writes its checkpoint",
  () =>
    inFolder(async (folder) => {
      // A named pipe that the run holds open tells when it has ended: its terminal cannot.
      await new Deno.Command("mkfifo", { args: [`${folder}/held`] }).output();
      const line = `exec script -qfc 'exec svc train run.toml 3>held' /dev/null`;
      const child = start(folder, line);
      const held = await Deno.open(`${folder}/held`);
      const out = reader(child.stdout), err = reader(child.stderr);
      await out("running");
      child.kill("SIGKILL");
      await child.status;
      await Promise.all([out(), err()]);
      assert.equal((await new Response(held.readable).bytes()).length, 0);
      await assertLeft(folder);
    }),
);

gpuTest("under nohup a run outlives its terminal", () =>
  inFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/run.toml`, SFT.replace("updates = 50", "updates = 1"));
    const child = start(folder, "exec nohup svc train run.toml --json");
    const out = reader(child.stdout), err = reader(child.stderr);
    await out(RUNNING);
    child.kill("SIGHUP");
    await Promise.all([out(), err()]);
    assert.equal((await child.status).code, 0, await err());
    const end = (await eventsOf(folder)).at(-1)!;
    assert.ok(end.kind === "end" && end.state === "completed");
  }));

for (
  const [where, redirection] of [["full", "> /dev/full"], ["closed", ">&-"], [
    "left by its reader",
    "| head -1",
  ]]
) {
  gpuTest(`a run goes on to its end when standard output is ${where}`, () =>
    inFolder(async (folder) => {
      await Deno.writeTextFile(`${folder}/run.toml`, SFT.replace("updates = 50", "updates = 2"));
      const child = start(folder, `svc train run.toml --json ${redirection}`);
      const out = reader(child.stdout), err = reader(child.stderr);
      await Promise.all([out(), err()]);
      assert.equal((await child.status).code, 0, await err());
      assert.ok((await err()).split("Cannot write to standard output").length <= 2, "said once");
      const end = (await eventsOf(folder)).at(-1)!;
      assert.ok(end.kind === "end" && end.state === "completed" && end.update === 2);
      assert.ok((await Deno.stat(`${folder}/runs/run/adapter.gguf`)).isFile);
    }));
}
