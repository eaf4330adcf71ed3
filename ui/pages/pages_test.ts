import assert from "node:assert/strict";
import type { Run } from "../../api/types.ts";
import { argumentsLine } from "../parts/call.tsx";
import { splitOf } from "../parts/conversation.tsx";
import { rateText } from "./run_checkpoint.tsx";
import { forkOf, trainedText } from "./run_fork.tsx";
import { rateOf } from "./run_controls.tsx";
import { leavesOf, sourceOf } from "./config_leaves.ts";
import { phaseText } from "./run.tsx";
import {
  arrived,
  barsOf,
  glanceTitles,
  inOrder,
  lineOf,
  matches,
  optionsOf,
  sectionsOf,
} from "./run_charts.tsx";
import { eventText, filtered } from "./run_journal.tsx";
import { firstOf, passes, RUNS_AT_ONCE } from "./runs.tsx";
import { besideOf, stepFrom } from "./trajectory_places.ts";
import { percentText } from "./trajectory_scenarios.tsx";

Deno.test("metrics are shown by section, what people look at first before the rest, without those in bands", () => {
  const names = ["time/a", "kl/update", "reward/min", "reward/mean", "reward/max", "memory/x", "kl/a"];
  assert.deepEqual(sectionsOf(inOrder(names)), [
    ["reward", ["reward/mean"]],
    ["kl", ["kl/a", "kl/update"]],
    ["memory", ["memory/x"]],
    ["time", ["time/a"]],
  ]);
});

Deno.test("a metric that comes later is behind the others of its section, and a section behind the others", () => {
  const before = inOrder(["kl/b", "time/a", "gone/a"]);
  assert.deepEqual(sectionsOf(arrived(before, inOrder(["kl/a", "kl/b", "reward/mean", "time/a"]))), [
    ["kl", ["kl/b", "kl/a"]],
    ["time", ["time/a"]],
    ["reward", ["reward/mean"]],
  ]);
});

Deno.test("a filter of metrics is a regular expression, or text when it is none", () => {
  assert.deepEqual(["reward/mean", "kl/a", "loss"].filter((name) => matches(name, "REWARD|kl")), [
    ...["reward/mean", "kl/a"],
  ]);
  assert.ok(matches("a(b", "(B") && !matches("ab", "("));
});

const series = (values: (number | null)[], counts = values.map(() => 1)) => ({
  ...{ updates: values.map((_, i) => i + 1), values, counts },
  ...{ low: values.map((value) => value && value - 1), high: values.map((value) => value && value + 1) },
});

Deno.test("a line has a band when its points are over several values, or other metrics are its edges", () => {
  const all = new Map([
    ["a", series([2, 3])],
    ["b", series([2, 3], [1, 4])],
    ["reward/mean", series([5])],
    ["reward/min", series([2])],
    ["reward/max", series([8])],
  ]);
  assert.deepEqual([lineOf("a", all).band, lineOf("b", all).band, lineOf("reward/mean", all).band], [
    ...[undefined, { low: [1, 2], high: [3, 4] }, { low: [1], high: [9] }],
  ]);
});

Deno.test("stacked bars leave out what never happened", () => {
  const metrics = [["x", "X", 1], ["none", "None", 2], ["y", "Y", 3], ["absent", "Absent", 4]] as const;
  const all = new Map([["x", series([0, 0.5])], ["none", series([0, null])], ["y", series([1, 0.5])]]);
  assert.deepEqual(barsOf({ title: "", metrics }, all).map(({ label, colour }) => [label, colour]), [
    ...[["X", 1], ["Y", 3]],
  ]);
});

Deno.test("what is seen at a glance has its places before the values come", () => {
  const none = new Map(),
    titles = (algorithm: Run["algorithm"], is_awaited: boolean, all = none) =>
      glanceTitles(algorithm, { all, is_awaited });
  assert.deepEqual(titles("sft", true), ["loss/sft", "Seconds of an update"]);
  assert.deepEqual(titles("agent_grpo", true).length, 4);
  assert.deepEqual(titles("sft", false), []);
  const all = new Map([["stop/submitted", series([1])], ["reward/mean", series([0])]]);
  assert.deepEqual(titles("agent_grpo", false, all), ["reward/mean", "How attempts ended"]);
});

Deno.test("the axis of a fraction or rate knows that it is one", () => {
  const names = ["group/degenerate_fraction", "eval/pass_rate", "optimizer/learning_rate", "reward/mean"];
  const all = new Map(names.map((name) => [name, series([1])]));
  assert.deepEqual(names.map((name) => lineOf(name, all).is_share), [true, true, false, false]);
});

Deno.test("how charts are drawn stands in the address, within its limits", () => {
  const of = (query: string) => optionsOf(new URLSearchParams(query));
  assert.deepEqual(of("metrics=kl&smoothing=0.5&scale=log&from=3"), {
    ...{ typed: "kl", smoothing: 0.5, is_log: true, zoom: { from: 3, to: null } },
  });
  assert.deepEqual(of("from=-1&to=x").zoom, { from: null, to: null });
  assert.deepEqual([of("smoothing=7").smoothing, of("smoothing=-1").smoothing, of("smoothing=x").smoothing], [
    ...[0.99, 0, 0],
  ]);
});

Deno.test("a run says what it does now", () => {
  type Phase = Run["progress"]["phase"];
  const doing = (phase: Phase, state: Run["state"] = "running") => (update: number, updates: number | null) =>
    phaseText({ state, progress: { update, updates, step: 0, eta_seconds: null, phase } });
  const running = doing(null);
  assert.deepEqual([
    running(3, 12),
    running(3, null),
    running(12, 12),
    doing(null, "completed")(12, 12),
    doing({ name: "rollouts", done: 5, total: 16 })(3, 12),
    doing({ name: "training", done: null, total: null })(3, 12),
    doing({ name: "evaluation", done: 2, total: 20 })(12, 12),
  ], [
    "It works on update 4 of 12.",
    "It works on update 4.",
    "All updates are done; it evaluates and writes its results.",
    "",
    "The model attempts the scenarios of update 4 of 12: 5 of 16 attempts have ended.",
    "It trains update 4 of 12.",
    "It evaluates: 2 of 20 examples are done.",
  ]);
});

Deno.test("a configuration is shown by dotted names, lists as they are", () => {
  assert.deepEqual(leavesOf({ a: { b: 1, c: [1, 2] }, d: null }), [["a.b", "1"], ["a.c", "[1,2]"], [
    ...["d", "null"],
  ]]);
});

Deno.test("a value that overrides a rule was given, and so was an id of the catalogue, which has no source", () => {
  const sources = { "training.lr": "override", "lora.rank": "default", "training.ctx": "derived" } as const;
  const names = ["training.lr", "agent.environment.id", "lora.rank", "training.ctx"];
  assert.deepEqual(names.map((name) => sourceOf(sources, name)), ["given", "given", "default", "derived"]);
});

Deno.test("runs are filtered by name or tag, state and algorithm together", () => {
  const run = { name: "First words", tags: ["Night"], state: "running", algorithm: "sft" } as Run;
  const by = (query: Record<string, string>) => passes(run, new URLSearchParams(query));
  assert.ok(by({}) && by({ text: "WORDS" }) && by({ text: "night", state: "running", algorithm: "sft" }));
  assert.ok(!by({ text: "other" }) && !by({ state: "failed" }) && !by({ algorithm: "preference" }));
});

Deno.test("a long list of runs begins with its first ones, and more come in steps", () => {
  const runs = Array.from({ length: RUNS_AT_ONCE + 1 }, (_, i) => ({ id: String(i) } as Run));
  let count = RUNS_AT_ONCE;
  const shown = () => firstOf(runs, count, (next) => count = next);
  assert.deepEqual([shown().items.length, shown().items[0], shown().is_done], [RUNS_AT_ONCE, runs[0], false]);
  shown().more();
  assert.deepEqual([shown().items, shown().is_done], [runs, true]);
});

Deno.test("a prompt ends before the answers of the attempt's own turns", () => {
  const messages = (["system", "user", "assistant", "user", "assistant", "tool", "assistant"] as const).map(
    (role, i) => ({ role, content: String(i) }),
  );
  const texts = (turns: number) => {
    const { prompt, answers } = splitOf(messages, turns);
    return [prompt.map(({ content }) => content).join(""), answers.map(({ content }) => content).join("")];
  };
  assert.deepEqual([texts(2), texts(3), texts(0)], [["0123", "46"], ["01", "246"], ["0123456", ""]]);
  // A malformed turn may have no message of its own: nothing says which answer belongs to which turn.
  assert.deepEqual(texts(4), ["01", ""]);
});

Deno.test("a call's arguments are told in a line", () => {
  assert.equal(
    argumentsLine({ path: "a.txt", lines: [1, 2], all: null }),
    'path: "a.txt", lines: [1,2], all: null',
  );
  assert.equal(argumentsLine({}), "");
});

Deno.test("what stands beside an attempt is in its group, or in that of another update", () => {
  const at = { id: "run_1", update: "6", group: "2" };
  assert.deepEqual(besideOf(at, "3"), { ...at, member: 3 });
  assert.deepEqual(besideOf(at, "4-0-3"), { id: "run_1", update: "4", group: "0", member: 3 });
  for (const text of [null, "", "x", "4-3", "-1", "1-2-3-4", "1e3"]) assert.equal(besideOf(at, text), null);
});

Deno.test("steps from update to update end at the first and the newest one", () => {
  assert.deepEqual([stepFrom(2, 1, 3), stepFrom(3, 1, 3), stepFrom(3, -1, 3), stepFrom(1, -1, 3)], [
    ...[3, null, 2, null],
  ]);
  // The newest one is not known yet.
  assert.deepEqual([stepFrom(2, 1, undefined), stepFrom(2, -1, undefined)], [null, 1]);
});

Deno.test("rates are percentages with one digit", () => {
  assert.deepEqual([0.625, 0, 1, 1 / 3, null].map(percentText), ["62.5 %", "0 %", "100 %", "33.3 %", "–"]);
});

Deno.test("events are told in a line", () => {
  const base = { seq: 1, time: "", run: "r" };
  assert.equal(
    eventText({
      ...base,
      kind: "command",
      command: "set_lr",
      arguments: { lr: 1e-4 },
      takes_effect: "boundary",
    }),
    "set_lr · lr 0.0001",
  );
  assert.equal(
    eventText({
      ...{ ...base, kind: "state", state: "failed", reason: "internal", detail: "why", update: 3 },
      checkpoint: null,
    }),
    "failed · why",
  );
});

Deno.test("a fork changes what was given, and leaves the rest as it is", () => {
  const from = { run: { id: "run_1" }, checkpoint: "update_000004" };
  const fork_from = { run: "run_1", checkpoint: "update_000004" };
  assert.deepEqual(forkOf(from, { name: " b ", updates: "12", lr: "1e-4" }), {
    ...{ fork_from, name: "b", budget: { updates: 12 }, params: { "training.lr": 1e-4 } },
  });
  assert.deepEqual(forkOf(from, { name: "", updates: "", lr: "" }), { fork_from });
  // The server refuses what is mistyped, at its field.
  assert.deepEqual(forkOf(from, { name: "", updates: "1o", lr: "1e-4x" }), {
    ...{ fork_from, budget: { updates: "1o" }, params: { "training.lr": "1e-4x" } },
  });
});

Deno.test("a fork says which updates it trains, and when none is left", () => {
  assert.deepEqual([trainedText(4, 12), trainedText(11, 12), trainedText(12, 12), trainedText(4, null)], [
    ...["updates 5 to 12", "update 12", "nothing: the checkpoint has all 12 updates"],
    "from update 5 on, as long as its time allows",
  ]);
});

Deno.test("a pass rate is told with its interval", () => {
  assert.equal(
    rateText({ rate: 0.625, low: 0.4801, high: 0.75, n: 40, attempts: 80 }),
    "62.5 % (48 to 75 %)",
  );
});

Deno.test("the journal is filtered by kind and text together", () => {
  const base = { time: "", run: "r", level: "info" as const };
  const events = ["Loaded", "loaded again", "other"].map((message, seq) => ({
    ...{ ...base, seq, kind: "log" as const, message },
  }));
  const seqs = (kind: string, text: string) => filtered(events, { kind, text }).map(({ seq }) => seq);
  assert.deepEqual([seqs("", ""), seqs("log", "LOADED"), seqs("warning", "")], [[0, 1, 2], [0, 1], []]);
});

Deno.test("a learning rate that was set is shown until an update has it", () => {
  const at = (update: number) => ({
    config: { training: { lr: 1e-4 } },
    last_metrics: { "optimizer/learning_rate": 2e-4 },
    progress: { update } as Run["progress"],
  });
  const accepted = { lr: 3e-4, update: 5 };
  assert.deepEqual([rateOf(at(5), null), rateOf(at(5), accepted), rateOf(at(6), accepted)], [
    2e-4,
    3e-4,
    2e-4,
  ]);
  assert.equal(rateOf({ ...at(0), last_metrics: {} }, null), 1e-4);
});
