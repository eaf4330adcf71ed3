import assert from "node:assert/strict";
import type { TrajectoryMember } from "../../api/types.ts";
import {
  breakOf,
  endingOf,
  lossesOf,
  lossOf,
  rewardSum,
  segmentsOf,
  toneOf,
  verificationText,
} from "./attempt.ts";

type Broken = Parameters<typeof breakOf>[0];

const turn = (n: number, fails: boolean) => ({ turn: n, calls: [{ failure: fails ? {} : null }] });

Deno.test("an attempt broke in the last turn with a failed call, or at the place of its boundary", () => {
  const at = (boundary: string, turns: unknown[]) =>
    breakOf({ failure: { boundary, message: "" }, turns } as Broken);
  assert.deepEqual(at("tool", [turn(0, true), turn(1, true), turn(2, false)]), { place: "turn", turn: 1 });
  assert.deepEqual(at("environment", [turn(0, false)]), { place: "end", turn: null });
  assert.deepEqual(at("environment", []), { place: "start", turn: null });
  assert.deepEqual(at("prompt", []), { place: "start", turn: null });
  assert.deepEqual(at("judge", [turn(0, false)]), { place: "grading", turn: null });
  // Texts that are not kept hide which call failed.
  assert.deepEqual(at("tool", [{ turn: 0, calls: null }]), { place: "end", turn: null });
  assert.equal(breakOf({ failure: null, turns: [] }), null);
});

Deno.test("the time of an attempt follows its course", () => {
  const timings = {
    queue_ms: 5,
    acquire_ms: 10,
    generate_ms: 50,
    tools_ms: 7,
    reward_ms: 20,
    rollout_ms: 100,
  };
  const turns = [
    { turn: 0, started_ms: 0, generate_ms: 30, tools_ms: 7 },
    { turn: 1, started_ms: 60, generate_ms: 20, tools_ms: 0 },
  ];
  assert.deepEqual(
    segmentsOf({ timings, turns } as Parameters<typeof segmentsOf>[0]).map((
      { kind, start_ms, ms, turn },
    ) => [kind, start_ms, ms, turn]),
    [
      ["queue", 0, 5, null],
      ["acquire", 5, 10, null],
      ["generate", 15, 30, 0],
      ["tools", 45, 7, 0],
      ["generate", 75, 20, 1],
      ["reward", 115, 20, null],
    ],
  );
});

Deno.test("a reward is told as the sum that it is", () => {
  const member = { step_rewards: [0.5, 0], terminal_reward: 1, total_reward: 1.5 } as TrajectoryMember;
  assert.equal(rewardSum(member), "1.5 = 0.5 + 0 in the turns + 1 at the end");
  assert.equal(rewardSum({ ...member, step_rewards: [], total_reward: 1 }), "1 = 1 at the end");
  const ungraded = { ...member, terminal_reward: null, total_reward: null };
  assert.equal(rewardSum(ungraded), "not graded, its steps gave 0.5 + 0");
  assert.equal(rewardSum({ ...ungraded, step_rewards: [] }), "not graded");
});

Deno.test("an attempt that lost its container says so beside its end", () => {
  assert.equal(endingOf({ stop_reason: "no_tool_call", sandbox_lost: false }), "no tool call");
  assert.equal(
    endingOf({ stop_reason: "completed", sandbox_lost: true }),
    "completed, after the end of its container",
  );
});

Deno.test("members that were not trained on say why, one by one and together", () => {
  const kept = { status: "kept", stop_reason: "submitted", attribution: null } as const;
  const late = { status: "dropped", stop_reason: "timeout", attribution: "budget" } as const;
  const failed = { status: "failed", stop_reason: "tool_failed", attribution: "tool" } as const;
  const lost = { status: "group_dropped", stop_reason: "submitted", attribution: null } as const;
  assert.deepEqual([kept, late, failed, lost].map(lossOf), [
    ...[null, "dropped (timeout), attributed to the budget", "failed (tool failed), attributed to the tool"],
    "dropped with its group (submitted)",
  ]);
  assert.equal(lossesOf([late, kept, late, failed]), "2 dropped: timeout · 1 failed: tool failed");
  assert.equal(lossesOf([kept]), "");
});

Deno.test("the colour of an attempt is the sign of its advantage, and not of its reward", () => {
  assert.deepEqual([0.7, -1e-9, 0, null].map((advantage) => toneOf({ advantage })), [
    ...["good", "bad", "none", "none"],
  ]);
});

Deno.test("a verification without output says so, one whose texts are not kept does not", () => {
  const of = (output: string | null, other = {}) =>
    verificationText({ ended: "exited", code: 1, output, capped: false, ...other });
  assert.deepEqual([of(""), of("no"), of(null), of("x", { capped: true })], [
    "ended with status 1 and printed nothing",
    "ended with status 1",
    "ended with status 1",
    "ended with status 1; only a part of its output is kept",
  ]);
  assert.equal(of(null, { ended: "timeout", code: null }), "was stopped (timeout)");
});
