/** The real program on a real device: a run with an interruption, and an evaluation. */

import assert from "node:assert/strict";
import { gpuTest } from "../kernels/gpu_testing.ts";
import type { RunEvent } from "../runs/record/event.ts";
import { writeTraces } from "../tests/small_sft.ts";
import { inspectFile } from "./inspect.ts";

const ROOT = new URL("..", import.meta.url).pathname;
const MODELS = `${ROOT}fixtures/models/`;

const SFT = `[run]
algorithm = "sft"
[model]
path = "${MODELS}tiny-agent-f16.gguf"
[lora]
rank = 4
[sft]
data = "traces.jsonl"
[training]
ctx = 640
batch_tokens = 640
updates = 6
[checkpoint]
every_updates = 100
`;

/** The real program, started in a folder. */
class Program {
  out = "";
  readonly child: Deno.ChildProcess;
  readonly ended: Promise<{ code: number; out: string; err: string }>;
  #listeners: (() => void)[] = [];

  constructor(folder: string, ...args: string[]) {
    this.child = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", `${ROOT}cli.ts`, ...args],
      cwd: folder,
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    this.ended = this.#follow();
  }

  /** Resolves when standard output contains a text, or when the program has ended without it. */
  async seen(text: string): Promise<void> {
    if (this.out.includes(text)) return;
    const found = new Promise<void>((resolve) => {
      this.#listeners.push(() => this.out.includes(text) && resolve());
    });
    await Promise.race([found, this.ended]);
  }

  async #follow() {
    const err = new Response(this.child.stderr).text();
    for await (const piece of this.child.stdout.pipeThrough(new TextDecoderStream())) {
      this.out += piece;
      for (const listener of this.#listeners) listener();
    }
    return { code: (await this.child.status).code, out: this.out, err: await err };
  }
}

const eventsOf = (out: string) => out.trimEnd().split("\n").map((line) => JSON.parse(line) as RunEvent);

gpuTest("svc train is interrupted, resumed and evaluated", async () => {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(`${folder}/run.toml`, SFT);
    await writeTraces(`${folder}/traces.jsonl`);
    const first = new Program(folder, "train", "run.toml", "--json");
    await first.seen('"state":"running"');
    first.child.kill("SIGINT");
    const interrupted = await first.ended;
    assert.equal(interrupted.code, 130, interrupted.err);
    const before = eventsOf(interrupted.out);
    assert.deepEqual(before.map(({ seq }) => seq), before.map((_, i) => i + 1));
    const checkpoint = before.find((event) => event.kind === "checkpoint");
    assert.ok(checkpoint, "an interrupted run has a checkpoint");
    assert.equal(before.at(-1)!.kind, "end");

    const occupied = await new Program(folder, "train", "run.toml").ended;
    assert.equal(occupied.code, 2);
    assert.match(occupied.err, /--resume/);

    const resumed = await new Program(folder, "train", "run.toml", "--resume", "--json").ended;
    assert.equal(resumed.code, 0, resumed.err);
    const after = eventsOf(resumed.out);
    assert.equal(after[0]!.seq, before.at(-1)!.seq + 1);
    const updates = after.flatMap((event) => event.kind === "update" ? [event.update] : []);
    assert.deepEqual(updates, [1, 2, 3, 4, 5, 6].filter((update) => update > checkpoint.update));
    const adapter = `${folder}/runs/run/adapter.gguf`;
    const found = await inspectFile(adapter);
    assert.ok(found.kind === "adapter" && found.rank === 4);

    const example = `${ROOT}examples/tiny_agent_grpo.toml`;
    const args = [
      "eval",
      example,
      "--adapter",
      adapter,
      "--limit",
      "2",
      "--samples",
      "1",
      "--temperature",
      "0",
    ];
    const evaluated = await new Program(folder, ...args, "--json").ended;
    assert.equal(evaluated.code, 0, evaluated.err);
    const { scenarios } = JSON.parse(evaluated.out) as {
      scenarios: { scenario: string; attempts: number }[];
    };
    assert.deepEqual(scenarios.map(({ scenario, attempts }) => [scenario, attempts]), [
      ["heldout-write-0000", 1],
      ["heldout-copy-0001", 1],
    ]);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
