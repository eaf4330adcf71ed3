/** The real program on a real device, stopped by signals and by a terminal that disappears. */

import assert from "node:assert/strict";
import { gpuTest } from "../kernels/gpu_testing.ts";
import type { RunEvent } from "../runs/record/event.ts";
import { writeTraces } from "../tests/small_sft.ts";

const ROOT = new URL("..", import.meta.url).pathname;
const MODELS = `${ROOT}fixtures/models/`;

/** Updates of about a second: more than can end before a signal arrives. */
const UPDATES = 300;

const SFT = `[run]
algorithm = "sft"
[model]
path = "${MODELS}tiny-agent-f16.gguf"
[lora]
rank = 2
[sft]
data = "traces.jsonl"
[training]
ctx = 640
batch_tokens = 640
micro_batch_tokens = 640
updates = ${UPDATES}
[checkpoint]
every_updates = 100
`;

/** With so many tokens in one update, no device finishes it during a test. Text takes no time to render. */
const LONG_ROWS = 500, WORDS = 300;

const RUNNING = '"state":"running"';

/** Changes the configuration so that an update does not end during a test, or has so many tokens. */
async function makeUpdatesLong(folder: string, batch_tokens = 60_000_000): Promise<void> {
  const row = `${JSON.stringify({ text: "once ".repeat(WORDS) })}\n`;
  await Deno.writeTextFile(`${folder}/rows.jsonl`, row.repeat(LONG_ROWS));
  const long = SFT.replace(/^data = .*$/m, 'data = "rows.jsonl"')
    .replace(/^batch_tokens = .*$/m, `batch_tokens = ${batch_tokens}`);
  await Deno.writeTextFile(`${folder}/run.toml`, long);
}

/** A test that needs a device and programs of the system. */
function processTest(name: string, body: () => Promise<void>, more: string[] = []): void {
  const folders = (Deno.env.get("PATH") ?? "").split(":");
  const isThere = (tool: string) =>
    folders.some((folder) => {
      try {
        return Deno.statSync(`${folder}/${tool}`).isFile;
      } catch {
        return false;
      }
    });
  const tools = ["sh", ...more].filter((tool) => tool !== LINUX);
  const missing = Deno.build.os === "windows"
    ? "needs POSIX signals"
    : more.includes(LINUX) && Deno.build.os !== "linux"
    ? "needs Linux"
    : tools.filter((tool) => !isThere(tool)).map((tool) => `needs ${tool}`)[0] ?? null;
  gpuTest({ name, sanitizeOps: true, sanitizeResources: true }, body, () => missing);
}

/** An entry in a test's list of tools: the test works on Linux only. */
const LINUX = "Linux";

async function inFolder(test: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(`${folder}/run.toml`, SFT);
    await writeTraces(`${folder}/traces.jsonl`);
    await test(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Starts a shell line with the program as `svc`, in its own process group, which a terminal's signals do not reach. */
function start(folder: string, line: string): Deno.ChildProcess {
  const svc = `"${Deno.execPath()}" run -A --no-check "${ROOT}cli.ts"`;
  return new Deno.Command("sh", {
    args: ["-c", line.replaceAll("svc", () => svc)],
    cwd: folder,
    env: { SVC_COMMAND: "./dev svc" },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

/** Reads a stream until it contains a text, or to its end; another call continues. */
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

/** Checks that the run finished its update, wrote a checkpoint and logged its end. */
async function assertLeft(folder: string): Promise<void> {
  const events = await eventsOf(folder);
  const end = events.at(-1)!;
  assert.ok(end.kind === "end" && end.state === "interrupted", JSON.stringify(end));
  const checkpoint = events.find((event) => event.kind === "checkpoint");
  assert.ok(
    checkpoint?.kind === "checkpoint" && checkpoint.update === end.update,
    "its checkpoint is the newest",
  );
  assert.ok((await Deno.stat(`${folder}/runs/run/checkpoints/${checkpoint.name}`)).isDirectory);
}

for (const signal of ["SIGTERM", "SIGHUP"] as const) {
  processTest(
    `${signal} finishes the update, writes a checkpoint and exits with status 130`,
    () =>
      inFolder(async (folder) => {
        const child = start(folder, "exec svc train run.toml --json");
        const out = reader(child.stdout), err = reader(child.stderr);
        await out(RUNNING);
        child.kill(signal);
        await Promise.all([out(), err()]);
        assert.equal((await child.status).code, 130, await err());
        assert.match(await err(), /^svc: continue with: \.\/dev svc train run\.toml --resume$/m);
        await assertLeft(folder);
      }),
  );
}

for (const signals of [["SIGINT", "SIGTERM"], ["SIGINT", "SIGINT"], ["SIGHUP", "SIGINT"]] as const) {
  processTest(`${signals.join(", then ")} exits at once`, () =>
    inFolder(async (folder) => {
      await makeUpdatesLong(folder);
      const child = start(folder, "exec svc train run.toml --json");
      const out = reader(child.stdout), err = reader(child.stderr);
      await out(RUNNING);
      child.kill(signals[0]);
      await err("stops at once");
      child.kill(signals[1]);
      await Promise.all([out(), err()]);
      const { code, signal } = await child.status;
      assert.deepEqual([code, signal], [130, null]);
      const events = await eventsOf(folder);
      assert.ok(!events.some(({ kind }) => kind === "end"), "nothing was waited for");
    }));
}

processTest(
  "SIGHUP after another signal, such as the second one of a closed terminal, changes nothing",
  () =>
    inFolder(async (folder) => {
      // The update goes on when the second signal comes, and ends.
      await makeUpdatesLong(folder, 5 * 640);
      const child = start(folder, "exec svc train run.toml --json");
      const out = reader(child.stdout), err = reader(child.stderr);
      await out(RUNNING);
      child.kill("SIGHUP");
      await err("stops at once");
      child.kill("SIGHUP");
      await Promise.all([out(), err()]);
      assert.equal((await child.status).code, 130, await err());
      await assertLeft(folder);
    }),
);

processTest(
  "a run whose terminal disappears finishes its update and writes its checkpoint",
  () =>
    inFolder(async (folder) => {
      // A named pipe that the run holds open shows when it has ended; its terminal cannot.
      await new Deno.Command("mkfifo", { args: [`${folder}/held`] }).output();
      const line = `exec script -qfc 'exec svc train run.toml 3>held' /dev/null`;
      const child = start(folder, line);
      using held = await Deno.open(`${folder}/held`);
      const out = reader(child.stdout), err = reader(child.stderr);
      // Its line and its event both say so, in either order.
      await out("update 1/");
      child.kill("SIGKILL");
      await child.status;
      await Promise.all([out(), err()]);
      assert.equal((await new Response(held.readable).bytes()).length, 0);
      await assertLeft(folder);
    }),
  // From util-linux: other systems have a `script` with other options.
  ["script", "mkfifo", LINUX],
);

processTest("under nohup a run outlives its terminal", () =>
  inFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/run.toml`, SFT.replace(`updates = ${UPDATES}`, "updates = 1"));
    const child = start(folder, "exec nohup svc train run.toml --json");
    const out = reader(child.stdout), err = reader(child.stderr);
    await out(RUNNING);
    child.kill("SIGHUP");
    await Promise.all([out(), err()]);
    assert.equal((await child.status).code, 0, await err());
    const end = (await eventsOf(folder)).at(-1)!;
    assert.ok(end.kind === "end" && end.state === "completed");
  }), ["nohup", LINUX]);

for (
  const { where, redirection, said, tools } of [
    { where: "full", redirection: "> /dev/full", said: [1], tools: [LINUX] },
    // The system, or Deno, opens /dev/null in place of closed streams.
    { where: "closed", redirection: ">&-", said: [0, 1], tools: [] },
    // The run does not control whether anything is written after its reader has left.
    { where: "left by its reader", redirection: "| head -1", said: [0, 1], tools: ["head"] },
  ]
) {
  processTest(
    `a run continues to its end when standard output is ${where}`,
    () =>
      inFolder(async (folder) => {
        await Deno.writeTextFile(`${folder}/run.toml`, SFT.replace(`updates = ${UPDATES}`, "updates = 2"));
        const child = start(folder, `svc train run.toml --json ${redirection}`);
        const out = reader(child.stdout), err = reader(child.stderr);
        await Promise.all([out(), err()]);
        assert.equal((await child.status).code, 0, await err());
        const times = (await err()).split("Cannot write to standard output").length - 1;
        assert.ok(said.includes(times), `said ${times} times: ${await err()}`);
        const end = (await eventsOf(folder)).at(-1)!;
        assert.ok(end.kind === "end" && end.state === "completed" && end.update === 2);
        assert.ok((await Deno.stat(`${folder}/runs/run/adapter.gguf`)).isFile);
      }),
    tools,
  );
}
