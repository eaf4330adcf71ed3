import assert from "node:assert/strict";
import type { Run, TrajectoryMemberSummary } from "../../api/types.ts";
import { promptOf } from "../parts/conversation.tsx";
import { leavesOf } from "./run_config.tsx";
import { matches, sectionsOf } from "./run_charts.tsx";
import { eventText } from "./run_journal.tsx";
import { passes } from "./runs.tsx";
import { remarkOf } from "./trajectory_updates.tsx";

Deno.test("metrics are shown by section, what people look at first before the rest, without those in bands", () => {
  const names = ["time/a", "kl/update", "reward/min", "reward/mean", "reward/max", "memory/x", "kl/a"];
  assert.deepEqual(sectionsOf(names), [
    ["reward", ["reward/mean"]],
    ["kl", ["kl/a", "kl/update"]],
    ["memory", ["memory/x"]],
    ["time", ["time/a"]],
  ]);
});

Deno.test("a filter of metrics is a regular expression, or text when it is none", () => {
  assert.deepEqual(["reward/mean", "kl/a", "loss"].filter((name) => matches(name, "REWARD|kl")), [
    ...["reward/mean", "kl/a"],
  ]);
  assert.ok(matches("a(b", "(B") && !matches("ab", "("));
});

Deno.test("a configuration is shown by dotted names, lists as they are", () => {
  assert.deepEqual(leavesOf({ a: { b: 1, c: [1, 2] }, d: null }), [["a.b", "1"], ["a.c", "[1,2]"], [
    ...["d", "null"],
  ]]);
});

Deno.test("runs are filtered by name or tag, state and algorithm together", () => {
  const run = { name: "First words", tags: ["Night"], state: "running", algorithm: "sft" } as Run;
  const by = (query: Record<string, string>) => passes(run, new URLSearchParams(query));
  assert.ok(by({}) && by({ text: "WORDS" }) && by({ text: "night", state: "running", algorithm: "sft" }));
  assert.ok(!by({ text: "other" }) && !by({ state: "failed" }) && !by({ algorithm: "preference" }));
});

Deno.test("a member's remark says why it was not trained on", () => {
  const member = { status: "failed", attribution: "tool", stop_reason: "tool_failed", malformed_calls: 2 };
  assert.equal(remarkOf(member as TrajectoryMemberSummary), "failed, by the tool, tool failed, 2 malformed");
  const kept = { status: "kept", attribution: null, stop_reason: "submitted", malformed_calls: 0 };
  assert.equal(remarkOf(kept as TrajectoryMemberSummary), "submitted");
});

Deno.test("a prompt ends before the first answer", () => {
  const messages = [
    { role: "system" as const, content: "s" },
    { role: "user" as const, content: "u" },
    { role: "assistant" as const, content: "a" },
    { role: "user" as const, content: "later" },
  ];
  assert.deepEqual(promptOf(messages).map(({ content }) => content), ["s", "u"]);
  assert.deepEqual(promptOf(messages.slice(0, 2)).length, 2);
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
