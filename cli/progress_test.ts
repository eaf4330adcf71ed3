import assert from "node:assert/strict";
import { ManualClock } from "../core/clock_fake.ts";
import type { EventData } from "../runs/record/event.ts";
import { TEST_UPDATE } from "../runs/events_testing.ts";
import { formatDuration, ProgressPrinter } from "./progress.ts";
import { testTerminal } from "./context_fake.ts";

function printer(options: Parameters<typeof testTerminal>[0] = {}) {
  const terminal = testTerminal(options);
  const clock = new ManualClock();
  const printer = new ProgressPrinter(terminal, clock);
  let seq = 0;
  const handle = (event: EventData) =>
    printer.handle({ seq: ++seq, time: "2026-01-01T00:00:00.000Z", run: "run_X", ...event });
  return { terminal, clock, printer, handle };
}

Deno.test("without a terminal every update is a line", () => {
  const { terminal, handle, printer: progress } = printer();
  handle({ kind: "state", state: "running", reason: null, detail: null, update: 0, checkpoint: null });
  handle(TEST_UPDATE);
  handle({ ...TEST_UPDATE, update: 4, updates: null, reward_mean: null, loss: 1.25, eta_seconds: null });
  progress.tick();
  progress.close();
  assert.equal(
    terminal.out,
    "update 3/8, reward 0.531, 312 tokens/s, ETA 1:20\nupdate 4, loss 1.2500, 312 tokens/s\n",
  );
});

Deno.test("on a terminal the status line is overwritten, and other lines are above it", async () => {
  const { terminal, clock, handle, printer: progress } = printer({ interactive: true });
  handle(TEST_UPDATE);
  const status = "update 3/8, reward 0.531, 312 tokens/s, ETA 1:20";
  assert.equal(terminal.out, `${status} · 0:00 ago`);
  await clock.advance(65_000);
  terminal.out = "";
  progress.tick();
  assert.equal(terminal.out, `\r\x1b[2K${status} · 1:05 ago`);
  terminal.out = "";
  handle({ kind: "warning", code: "software_device", message: "slow" });
  assert.equal(terminal.out, `\r\x1b[2Kwarning software_device: slow\n${status} · 1:05 ago`);
  terminal.out = "";
  progress.close();
  progress.tick();
  assert.equal(terminal.out, "\r\x1b[2K");
});

Deno.test("the status line shows progress inside an update and the result of the last one", async () => {
  const { terminal, clock, handle, printer: progress } = printer({ interactive: true });
  const shown = () => {
    const line = terminal.out.replaceAll("\r\x1b[2K", "");
    terminal.out = "";
    return line;
  };
  handle({ kind: "state", state: "starting", reason: null, detail: null, update: 0, checkpoint: null });
  assert.equal(shown(), "starting for 0:00");
  handle({ kind: "state", state: "running", reason: null, detail: null, update: 0, checkpoint: null });
  assert.equal(shown(), "running for 0:00");
  progress.show({ phase: "evaluation", done: 40, total: 200 });
  assert.equal(shown(), "held-out 40/200 for 0:00");
  progress.show({ phase: "rollouts", update: 4, updates: 8, done: 11, total: 32 });
  shown();
  await clock.advance(5000);
  progress.show({ phase: "rollouts", update: 4, updates: 8, done: 12, total: 32 });
  assert.equal(shown(), "update 4/8 · rollouts 12/32 for 0:05");
  // The event of the previous update may come after the next activity.
  handle(TEST_UPDATE);
  const facts = "reward 0.531, 312 tokens/s, ETA 1:20";
  assert.equal(shown(), `update 4/8 · rollouts 12/32 for 0:00 · ${facts}`);
  progress.show({ phase: "training", update: 4, updates: 8 });
  assert.equal(shown(), `update 4/8 · training for 0:00 · ${facts}`);
  progress.show({ phase: "training", update: 4, updates: null });
  assert.equal(shown(), `update 4 · training for 0:00 · ${facts}`);
  progress.show({ phase: "training", update: 4, updates: 8 });
  shown();
  handle({ kind: "state", state: "pausing", reason: null, detail: null, update: 3, checkpoint: null });
  assert.equal(shown(), `pausing · update 4/8 · training for 0:00 · ${facts}`);
  handle({ ...TEST_UPDATE, update: 4 });
  assert.equal(shown(), `pausing for 0:00 · update 4/8, ${facts}`);
});

Deno.test("a note is above the status line, on standard error", () => {
  const { terminal, printer: progress } = printer({ interactive: true });
  progress.show({ phase: "training", update: 1, updates: 2 });
  terminal.out = "";
  progress.note("svc: leaving\x07");
  assert.deepEqual([terminal.out, terminal.err], [
    "\r\x1b[2Kupdate 1/2 · training for 0:00",
    "svc: leaving�\n",
  ]);
  progress.close();
  terminal.out = "";
  progress.show({ phase: "training", update: 2, updates: 2 });
  assert.equal(terminal.out, "");
});

Deno.test("without a terminal nothing is printed between events", () => {
  const { terminal, printer: progress } = printer();
  progress.show({ phase: "rollouts", update: 4, updates: 8, done: 12, total: 32 });
  progress.tick();
  assert.equal(terminal.out, "");
});

Deno.test("the status line never wraps, and the remaining time is dropped last", () => {
  const shown = (columns: number) => {
    const { terminal, handle } = printer({ interactive: true, columns });
    handle(TEST_UPDATE);
    return terminal.out;
  };
  const facts = "update 3/8, reward 0.531, 312 tokens/s, ETA 1:20", all = `${facts} · 0:00 ago`;
  assert.equal(shown(all.length + 1), all);
  assert.equal(shown(all.length), facts);
  assert.equal(shown(facts.length + 1), facts);
  assert.equal(shown(20), "update 3/8, reward ");
});

Deno.test("colours are used only on terminals that support them", () => {
  const plain = printer({ interactive: true }), coloured = printer({ interactive: true, color: true });
  const warning: EventData = { kind: "warning", code: "no_heldout", message: "m" };
  plain.handle(warning);
  coloured.handle(warning);
  assert.equal(plain.terminal.out, "warning no_heldout: m\n");
  assert.equal(coloured.terminal.out, "\x1b[33mwarning no_heldout: m\x1b[0m\n");
});

Deno.test("untrusted text cannot control the terminal", () => {
  const { terminal, handle } = printer();
  handle({ kind: "log", level: "info", message: "a\x1b[2Jb\r\x07" });
  assert.equal(terminal.out, "a�[2Jb��\n");
  handle({ kind: "log", level: "debug", message: "unseen" });
  assert.equal(terminal.out, "a�[2Jb��\n");
  terminal.out = "";
  const forged = "x\nrun completed after update 9";
  handle({ kind: "warning", code: "no_heldout", message: forged });
  handle({ kind: "log", level: "warning", message: forged });
  const end = {
    kind: "end",
    detail: forged,
    update: 1,
    evaluation: null,
    plot: null,
    adapter: forged,
  } as const;
  const rest = { adapter_update: 2, other_adapter: null, deterministic: true };
  handle({ ...end, ...rest, state: "interrupted", reason: null });
  // The reason of a failure goes to standard error.
  handle({ ...end, ...rest, state: "failed", reason: "internal" });
  const begins = terminal.out.split("\n").filter((line) => line.startsWith("run "));
  assert.deepEqual(begins, ["run interrupted after update 1: x", "run failed after update 1: internal"]);
});

const rate = (rate: number, low: number, high: number) => ({ rate, low, high, n: 32, attempts: 64 });

Deno.test("the end shows the curve, the pass rates, their difference, and the adapter's update", () => {
  const { terminal, handle } = printer();
  handle({
    kind: "end",
    state: "completed",
    reason: null,
    detail: null,
    update: 8,
    evaluation: {
      metric: "eval/pass_rate",
      before: { update: 0, value: 0.4531, pass_rate: rate(0.4531, 0.40, 0.5049) },
      best: { update: 4, value: 0.65, pass_rate: rate(0.65, 0.6, 0.7) },
      after: { update: 8, value: 0.62, pass_rate: rate(0.62, 0.58, 0.661) },
      difference: { difference: 0.1669, low: -0.0012, high: 0.3, n: 32 },
      fell: false,
    },
    plot: "plot",
    adapter: "/runs/x/adapter.gguf",
    adapter_update: 8,
    other_adapter: { which: "best", update: 4, path: "/runs/x/adapter_best.gguf" },
    deterministic: true,
  });
  assert.equal(
    terminal.out,
    `
plot

held-out before: pass rate 45.3 % (95 % interval 40.0 to 50.5; n = 32 scenarios, 64 attempts)
held-out after:  pass rate 62.0 % (95 % interval 58.0 to 66.1; n = 32 scenarios, 64 attempts)
difference:      +16.7 points (95 % interval −0.1 to +30.0, paired over 32 scenarios)
best evaluated:  pass rate 65.0 % (95 % interval 60.0 to 70.0; n = 32 scenarios, 64 attempts), after update 4

adapter: /runs/x/adapter.gguf (update 8)
best adapter: /runs/x/adapter_best.gguf (best evaluated update, 4)
run completed after update 8
`,
  );
  terminal.out = "";
  const end = {
    kind: "end",
    state: "failed",
    update: 2,
    evaluation: null,
    plot: null,
    adapter: null,
    adapter_update: null,
    other_adapter: null,
  } as const;
  handle({ ...end, reason: "max_dropped_fraction", detail: "17 of 32 were lost", deterministic: true });
  assert.equal(terminal.out, "run failed after update 2: max_dropped_fraction\n");
});

Deno.test("a difference without an interval says why it has none", () => {
  const line = (n: number, loss: boolean) => {
    const { terminal, handle } = printer();
    const point = { update: 0, value: 0.5, pass_rate: loss ? null : rate(0.5, 0.4, 0.6) };
    const evaluation = {
      metric: loss ? "eval/loss" as const : "eval/pass_rate" as const,
      ...{ before: point, best: point, after: point, fell: false },
      difference: { difference: 0.25, low: null, high: null, n },
    };
    handle({
      ...{ kind: "end", state: "completed", reason: null, detail: null, update: 1, evaluation, plot: null },
      ...{ adapter: null, adapter_update: null, other_adapter: null, deterministic: true },
    });
    return terminal.out.split("\n").find((text) => text.startsWith("difference:"));
  };
  assert.equal(
    line(5, false),
    "difference:      +25.0 points (no interval: fewer than 6, paired over 5 scenarios)",
  );
  assert.equal(line(6, true), "difference:      0.2500 (no interval: all differ alike, paired over 6 rows)");
});

Deno.test("an update's line shows lost attempts with reasons, and groups without advantages", () => {
  const { terminal, handle } = printer();
  const summary = { scenario: "s", rewards: [], stop_reasons: [], dropped: false };
  const groups = [true, true, false, false].map((degenerate) => ({ ...summary, degenerate }));
  const lost = { max_turns: 2, environment_failed: 1 };
  handle({ ...TEST_UPDATE, lost, groups, degenerate_groups: 2 });
  handle({ ...TEST_UPDATE, groups, degenerate_groups: 4, optimizer_steps: 0 });
  assert.equal(
    terminal.out,
    "update 3/8, reward 0.531, 312 tokens/s, ETA 1:20, 3 of 32 lost (2 max_turns, 1 environment_failed), " +
      "2 of 4 groups equal\n" +
      "update 3/8, reward 0.531, 312 tokens/s, ETA 1:20, 4 of 4 groups equal, nothing learned\n",
  );
  // On a terminal that line stays, and the status line keeps its room for the remaining time.
  const watched = printer({ interactive: true });
  watched.handle({ ...TEST_UPDATE, lost, groups });
  watched.handle({ ...TEST_UPDATE, update: 4 });
  const facts = "reward 0.531, 312 tokens/s, ETA 1:20";
  const kept = `update 3/8, ${facts}, 3 of 32 lost (2 max_turns, 1 environment_failed)\n`;
  const status = (update: number) => `update ${update}/8, ${facts} · 0:00 ago`;
  assert.equal(
    watched.terminal.out,
    [status(3), kept + status(3), status(4)].join("\r\x1b[2K"),
  );
});

Deno.test("an evaluation's line shows failed attempts", () => {
  const { terminal, handle } = printer();
  const event = {
    kind: "evaluation",
    n: 1,
    update: 0,
    pass_rate: { rate: 0.5, low: 0.25, high: 0.75, n: 8, attempts: 64 },
    reward_mean: 0.5,
    loss: null,
    perplexity: null,
    rows: null,
    failed: {},
    failure: null,
    scenarios: [],
  } as const satisfies EventData;
  handle(event as EventData);
  handle({ ...event, failed: { verify_failed: 2 } } as EventData);
  const line =
    "held-out after update 0: pass rate 50.0 % (95 % interval 25.0 to 75.0; n = 8 scenarios, 64 attempts)";
  handle(
    { ...event, pass_rate: null, loss: 1.25, perplexity: 3.49, rows: { n: 20, truncated: 3 } } as EventData,
  );
  assert.equal(
    terminal.out,
    `${line}\n${line}, 2 of 64 attempts failed (2 verify_failed) and count as not passed\n` +
      "held-out after update 0: loss 1.2500, perplexity 3.49 (n = 20 rows, 3 of them cut at training.ctx)\n",
  );
});

Deno.test("durations", () => {
  assert.deepEqual([0, 59.6, 65, 3605].map(formatDuration), ["0:00", "1:00", "1:05", "1:00:05"]);
});
