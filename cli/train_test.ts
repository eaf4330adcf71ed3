import assert from "node:assert/strict";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { ServiceError } from "../core/errors.ts";
import { ActivityFeed } from "../runs/record/activity.ts";
import type { EndEvent, EventData, RunEvent } from "../runs/record/event.ts";
import type { CliStartOptions } from "./context.ts";
import { viewText } from "./continuation.ts";
import { runCli } from "./program.ts";
import { testContext, testTerminal } from "./context_fake.ts";

const EXAMPLE = new URL("../examples/tiny_agent_grpo.toml", import.meta.url).pathname;

const END: EndEvent = {
  kind: "end",
  state: "completed",
  reason: null,
  detail: null,
  update: 1,
  evaluation: null,
  plot: null,
  adapter: null,
  adapter_update: null,
  other_adapter: null,
  deterministic: true,
};

const LOG: EventData = { kind: "log", level: "info", message: "hello" };

/** A run whose events come from the test; `interrupt` is the user's Ctrl-C. */
class ScriptedRun {
  stops = 0;
  exits: number[] = [];
  started: CliStartOptions | null = null;
  interrupt = () => {};
  released = 0;
  terminal = testTerminal();
  readonly activity = new ActivityFeed();

  constructor(readonly script: (run: ScriptedRun) => AsyncGenerator<EventData>) {}

  async *#events(): AsyncGenerator<RunEvent> {
    let seq = 0;
    for await (const event of this.script(this)) {
      yield { seq: ++seq, time: "2026-01-01T00:00:00.000Z", run: "run_X", ...event };
    }
  }

  train(...args: string[]): Promise<number> {
    return runCli(["train", ...args], this.context());
  }

  context() {
    return testContext({
      terminal: this.terminal,
      startRun: (options) => {
        this.started = options;
        return Promise.resolve({ events: this.#events(), activity: this.activity, stop: () => this.stops++ });
      },
      onInterrupt: (callback) => {
        this.interrupt = callback;
        return () => this.released++;
      },
      exit: (code) => this.exits.push(code),
    });
  }
}

async function* failing(): AsyncGenerator<EventData> {
  yield { ...END, state: "failed", reason: "loss_not_finite" };
}

async function* completing(): AsyncGenerator<EventData> {
  yield LOG;
  yield END;
}

Deno.test("a completed run with exported trajectories ends with the command that shows them", async () => {
  const directory = "examples/runs/tiny_agent_grpo/trajectories";
  const run = new ScriptedRun(completing);
  await run.train(EXAMPLE);
  const last = run.terminal.out.trimEnd().split("\n").at(-1)!;
  const shown = /^see it in the browser: svc server view (\S+) --open$/.exec(last)![1]!;
  assert.equal(resolve(shown), fileURLToPath(new URL(`../${directory}`, import.meta.url)));
  const [json, failed, unobserved] = [
    new ScriptedRun(completing),
    new ScriptedRun(failing),
    new ScriptedRun(completing),
  ];
  await json.train(EXAMPLE, "--json");
  await failed.train(EXAMPLE);
  await unobserved.train(EXAMPLE.replace("_grpo", "_sft"));
  for (const { terminal } of [json, failed, unobserved]) assert.doesNotMatch(terminal.out, /browser/);
  assert.equal(
    viewText({ name: "./dev svc" }, "/else where/t"),
    "see it in the browser: ./dev svc server view '/else where/t' --open",
  );
});

Deno.test("a completed run has exit status 0, a failed one 1", async () => {
  const run = new ScriptedRun(completing);
  assert.equal(await run.train(EXAMPLE), 0);
  assert.match(run.terminal.out, /^hello\nrun completed after update 1\n/);
  assert.deepEqual([run.stops, run.exits, run.released], [0, [], 1]);
  assert.equal(await new ScriptedRun(failing).train(EXAMPLE), 1);
});

Deno.test("with --json every event is a line of its own and nothing else is", async () => {
  const run = new ScriptedRun(completing);
  assert.equal(await run.train(EXAMPLE, "--json"), 0);
  const events = run.terminal.out.trimEnd().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(events.map(({ seq, kind, run: id }) => [seq, kind, id]), [
    [1, "log", "run_X"],
    [2, "end", "run_X"],
  ]);
});

Deno.test("the first Ctrl-C finishes the update, the second exits at once", async () => {
  const run = new ScriptedRun(async function* (run) {
    yield LOG;
    run.interrupt();
    assert.deepEqual([run.stops, run.exits], [1, []]);
    run.interrupt();
    assert.deepEqual([run.stops, run.exits], [1, [130]]);
    yield { ...END, state: "paused" };
  });
  assert.equal(await run.train(EXAMPLE), 130);
  assert.match(run.terminal.err, /Ctrl-C again stops at once/);
});

Deno.test("--replay reaches the run, and the command that continues it", async () => {
  const run = new ScriptedRun(async function* () {
    yield { ...END, state: "interrupted" };
  });
  await run.train(EXAMPLE, "--replay", "runs/old one");
  assert.equal(run.started!.replay, "runs/old one");
  assert.match(run.terminal.err, /train \S+tiny_agent_grpo\.toml --resume --replay 'runs\/old one'/);
});

Deno.test("a run that fails after a Ctrl-C has failed", async () => {
  const run = new ScriptedRun(async function* (run) {
    run.interrupt();
    yield { ...END, state: "failed", reason: "internal" };
  });
  assert.equal(await run.train(EXAMPLE), 1);
});

Deno.test("a Ctrl-C before the first event exits at once", async () => {
  const run = new ScriptedRun(completing);
  const startRun = () => {
    run.interrupt();
    throw new ServiceError("cancelled", "Cannot train: interrupted");
  };
  const code = await runCli(["train", EXAMPLE], { ...run.context(), startRun });
  assert.deepEqual([code, run.exits, run.released], [130, [130], 1]);
});

Deno.test("options choose how a run starts", async () => {
  const begin = async (...args: string[]) => {
    const run = new ScriptedRun(completing);
    assert.equal(await run.train(EXAMPLE, ...args), 0);
    const { mode, checkpoint, force, loaded } = run.started!;
    assert.equal(loaded.config.run.algorithm, "agent_grpo");
    return [mode, checkpoint, force];
  };
  assert.deepEqual(await begin(), ["new", null, false]);
  assert.deepEqual(await begin("--force"), ["new", null, true]);
  assert.deepEqual(await begin("--resume"), ["resume", null, false]);
  assert.deepEqual(await begin("--fork", "runs/x/update_4"), ["fork", "runs/x/update_4", false]);
  const adopted = new ScriptedRun(completing);
  assert.equal(await adopted.train(EXAMPLE, "--adopt", "run_X", "--learning-rate", "0.30000000000000004"), 0);
  assert.deepEqual([adopted.started!.adopt, adopted.started!.learning_rate], ["run_X", 0.1 + 0.2]);
  for (const other of [["--fork", "x"], ["--force"]]) {
    const both = new ScriptedRun(completing);
    assert.equal(await both.train(EXAMPLE, "--resume", ...other), 2);
    assert.equal(both.started, null);
  }
});

Deno.test("with --control only answers and the activity go to standard output, and an end by a command is not a failure", async () => {
  const run = new ScriptedRun(async function* (run) {
    yield LOG;
    run.activity.show({ phase: "training", update: 2, updates: 6 });
    while (run.terminal.out === "") await new Promise((resolve) => setTimeout(resolve));
    yield { ...END, state: "paused" };
    run.activity.close();
  });
  assert.equal(await run.train(EXAMPLE, "--control"), 0);
  assert.equal(run.terminal.out, '{"activity":{"phase":"training","update":2,"updates":6}}\n');
  assert.match(run.terminal.err, /^hello\n/);
  assert.equal(run.started?.control, true);
  const orphan = new ScriptedRun(async function* () {
    yield { ...END, state: "interrupted" };
  });
  assert.equal(await orphan.train(EXAMPLE, "--control"), 130);
});

Deno.test("on a terminal the status line follows the current activity", async () => {
  const run = new ScriptedRun(async function* (run) {
    yield LOG;
    run.activity.show({ phase: "rollouts", update: 2, updates: 6, done: 12, total: 32 });
    while (!run.terminal.out.includes("rollouts")) await new Promise((resolve) => setTimeout(resolve));
    yield END;
    run.activity.close();
  });
  run.terminal = testTerminal({ interactive: true });
  assert.equal(await run.train(EXAMPLE), 0);
  const lines = "hello\nupdate 2/6 · rollouts 12/32 for 0:00\r\x1b[2Krun completed after update 1\n";
  assert.ok(run.terminal.out.startsWith(lines), run.terminal.out);
});

Deno.test("the reason of a failure always goes to standard error", async () => {
  const detail = "Cannot go on: 17 of 32 attempts were lost\x1b[2J";
  const failing = () =>
    new ScriptedRun(async function* () {
      yield { ...END, state: "failed", reason: "max_dropped_fraction", detail };
    });
  for (const args of [[], ["--json"], ["--control"]]) {
    const run = failing();
    assert.equal(await run.train(EXAMPLE, ...args), 1);
    assert.match(run.terminal.err, /^svc: Cannot go on: 17 of 32 attempts were lost�\[2J$/m);
  }
});

Deno.test("overrides reach the configuration of the run", async () => {
  const run = new ScriptedRun(completing);
  assert.equal(await run.train(EXAMPLE, "training.lr=1e-3", "run.name=other"), 0);
  const { training, run: { name } } = run.started!.loaded.config;
  assert.deepEqual([training.lr, name], [1e-3, "other"]);
  const wrong = new ScriptedRun(completing);
  assert.equal(await wrong.train(EXAMPLE, "training.lr=fast"), 2);
  assert.match(wrong.terminal.err, /: 1 problem\n {2}training\.lr=fast: must be a number/);
  assert.equal(wrong.started, null);
});

const CHECKPOINT: EventData = {
  kind: "checkpoint",
  name: "update_000001",
  update: 1,
  step: 1,
  size_bytes: 1,
  metrics: {},
  best: false,
};

/** The run can continue from a checkpoint: its own, or its parent's. */
const RUNNING: EventData = {
  kind: "state",
  state: "running",
  reason: null,
  detail: null,
  update: 1,
  checkpoint: "update_000001",
};

/** The last output of an interrupted run, with or without a checkpoint. */
async function interrupted(args: string[], events: EventData[], at_once = false): Promise<string> {
  const run = new ScriptedRun(async function* (run) {
    run.interrupt();
    yield* events;
    if (at_once) run.interrupt();
    yield { ...END, state: "interrupted" };
  });
  assert.equal(await run.train(...args), 130);
  const said = run.terminal.err.split("\n").slice(1);
  // The fake `exit` returns; the real one does not.
  return (at_once ? said.slice(0, said.length / 2) : said).join("\n").trimEnd();
}

Deno.test("an interrupted run prints the command to continue", async () => {
  const saved = "checkpoint.every_updates=1";
  assert.equal(
    await interrupted([EXAMPLE, "--force", "training.lr=1e-3", "agent.system_suffix=a b", saved], [
      CHECKPOINT,
    ]),
    `svc: continue with: svc train ${EXAMPLE} --resume training.lr=1e-3 'agent.system_suffix=a b' ${saved}`,
  );
  assert.equal(
    await interrupted([EXAMPLE, saved], [CHECKPOINT], true),
    `svc: the updates after the newest checkpoint are lost; continue with: svc train ${EXAMPLE} --resume ${saved}`,
  );
  assert.equal(
    await interrupted([EXAMPLE, saved], [], true),
    "svc: what was learned since the start is lost: no checkpoint was written yet; start again with: " +
      `svc train ${EXAMPLE} --resume ${saved}`,
  );
  assert.match(await interrupted([EXAMPLE, saved, "--resume"], [RUNNING]), /^svc: continue with/);
  const named = new ScriptedRun(async function* () {
    yield CHECKPOINT;
    yield { ...END, state: "interrupted" };
  });
  const command_name = "'../my svc/dev' svc";
  assert.equal(await runCli(["train", EXAMPLE, saved], { ...named.context(), command_name }), 130);
  assert.equal(
    named.terminal.err,
    `svc: continue with: ${command_name} train ${EXAMPLE} --resume ${saved}\n`,
  );
  // A service has no shell.
  assert.doesNotMatch(await interrupted([EXAMPLE, saved, "--control"], [CHECKPOINT]), /continue with/);
});

Deno.test("without [checkpoint] an interrupted run says what is lost and which lines prevent it", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const path = `${folder}/run.toml`;
    const root = new URL("..", import.meta.url).pathname;
    const text = (await Deno.readTextFile(EXAMPLE)).replaceAll('"../', `"${root}`)
      .replaceAll('"tiny_agent_tasks', `"${root}examples/tiny_agent_tasks`);
    await Deno.writeTextFile(path, text.replace(/\[checkpoint\]\n([^[].*\n)*/, ""));
    assert.equal(
      await interrupted([path, "agent.updates=60"], []),
      `svc: what was learned since the start is lost: ${path} has no [checkpoint]. With these lines it is kept:
[checkpoint]
every_updates = 6
start again with: svc train ${path} --resume agent.updates=60`,
    );
    assert.match(
      await interrupted([path, "--fork", "runs/x/update_4"], [RUNNING]),
      /start again with: svc train \S+ --fork runs\/x\/update_4 --force$/,
    );
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
