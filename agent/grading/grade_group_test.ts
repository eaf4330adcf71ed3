import { deepEqual, equal, rejects } from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import { finishGroups, type GradingSettings } from "../rollout/finish_groups.ts";
import { breakReasons, firstFailure, lostReasons } from "../rollout/lost.ts";
import { rolloutMetrics } from "../rollout/metrics.ts";
import { earnedReward } from "../rollout/reward.ts";
import {
  callText,
  rolloutGroups,
  type TestEnvironments,
  testEnvironments,
  type TestRollout,
  testRollout,
  testScenarios,
  turnTokens,
} from "../rollout/rollout_fake.ts";
import type { Group } from "../trajectory/group.ts";
import { environmentGrader } from "./environment_grader.ts";
import type { GroupGrades } from "./grader.ts";
import { type RankingJudge, rankingJudge } from "./ranking_judge_fake.ts";

/** Says a word and ends, in one turn. */
const saying = (text: string) => `${callText("say", { text })}\n${callText("end")}`;

const finish = (groups: Group[], more: Partial<GradingSettings> = {}) =>
  finishGroups(groups, {
    truncation: "drop",
    max_dropped_fraction: 1,
    advantage: "leave_one_out",
    ...more,
  });

interface Judged extends TestRollout {
  judge: RankingJudge;
  /** The turn of each attempt, in the order (scenario, member). */
  turns: string[];
  environment?: TestEnvironments;
}

/** Rollouts that the environment grades where it can, else the judge. */
async function judged({ judge, turns, ...more }: Judged): Promise<Group[]> {
  let next = 0;
  const engine = new ScriptedEngine({ script: () => turnTokens(turns[next++]!) });
  const environment = more.environment ?? testEnvironments({ coverage: () => "some" });
  const options = testRollout(engine.client, {
    environment,
    graders: [environmentGrader(environment), judge],
    concurrent_rollouts: 1,
    ...more,
  });
  try {
    return await Array.fromAsync(rolloutGroups(options));
  } finally {
    deepEqual([engine.openSequences, environment.live, options.clock.sleeping], [[], 0, 0]);
  }
}

Deno.test("a judge compares the attempts of a group, and advantages follow its ranks", async () => {
  const judge = rankingJudge();
  const groups = await judged({ judge, turns: ["ccc", "a", "bb"].map(saying), group_size: 3 });
  const [group] = groups;
  equal(group!.graded_by, "judge");
  deepEqual(judge.graded, [{ scenario: "s", members: [0, 1, 2], evidence: ["ok", "ok", "ok"] }]);
  deepEqual(group!.members.map(({ terminal_reward }) => terminal_reward), [1, 0, 0.5]);
  deepEqual(group!.members.map(({ total_reward }) => total_reward), [1, 0, 0.5]);
  deepEqual(group!.members[2]!.assessment, { score: 0.5, explanation: "1 wrote less" });
  deepEqual(group!.members.map(({ deterministic }) => deterministic), [false, false, false]);
  finish(groups);
  // Each reward minus the mean of the other two.
  deepEqual(group!.members.map(({ advantage }) => advantage), [1 - 0.25, 0 - 0.75, 0.5 - 0.5]);
  const metrics = rolloutMetrics(groups, 1);
  deepEqual([metrics["judge/failed_fraction"], metrics["judge/degenerate_group_fraction"]], [0, 0]);
  equal(metrics["reward/mean"], 0.5);
});

Deno.test("the judge neither sees nor grades groups that the environment grades", async () => {
  const judge = rankingJudge();
  const environment = testEnvironments({ coverage: ({ id }) => id === "verified" ? "all" : "some" });
  const stepped = `${callText("reward", { value: 2 })}\n${callText("end")}`;
  const groups = await judged({
    judge,
    environment,
    scenarios: testScenarios("verified", "stepped", "judged"),
    turns: [...["a", "bb"].map(saying), stepped, saying("a"), ...["a", "bb"].map(saying)],
    group_size: 2,
  });
  deepEqual(groups.map(({ graded_by }) => graded_by), ["environment", "environment", "judge"]);
  // An attempt with a reward decides who grades its group; whether one without does, only a finished group shows.
  deepEqual(judge.inspected, ["stepped/1", "judged/0", "judged/1"]);
  deepEqual(judge.graded.map(({ scenario }) => scenario), ["judged"]);
  const rewards = groups.map(({ members }) => members.map(({ total_reward }) => total_reward));
  // The first group says one thing in each attempt; in the third, the judge's inspection finds nothing.
  deepEqual(rewards[0], [1, 1]);
  deepEqual(groups[1]!.members.map(({ step_rewards }) => step_rewards), [[2], [0]]);
  deepEqual(rewards[2], [0, 1]);
  deepEqual(groups[0]!.members.map(({ deterministic }) => deterministic), [true, true]);
  const metrics = rolloutMetrics(groups, 1);
  deepEqual([metrics["judge/failed_fraction"], metrics["judge/degenerate_group_fraction"]], [0, 0]);
  const environments_alone = rolloutMetrics(groups.slice(0, 2), 1);
  equal("judge/failed_fraction" in environments_alone, false);
});

Deno.test("a judge that cannot look at an attempt loses it only where it is asked about the group", async () => {
  const judge = rankingJudge(), look = judge.inspect!;
  judge.inspect = async (attempt, signal) => {
    if (attempt.trajectory.member !== 1) return await look(attempt, signal);
    throw new ServiceError("environment_failed", "no state", { transient: true });
  };
  const stepped = `${callText("reward", { value: 2 })}\n${callText("end")}`;
  const turns = [stepped, saying("a"), saying("b"), ...["a", "bb", "ccc"].map(saying)];
  const scenarios = testScenarios("stepped", "judged");
  const groups = await judged({ judge, turns, scenarios, group_size: 3 });
  deepEqual(groups.map(({ graded_by }) => graded_by), ["environment", "judge"]);
  const [rewarded, compared] = groups.map(({ members }) => members);
  deepEqual(rewarded!.map(({ total_reward, failure }) => [total_reward, failure]), [
    ...[[2, null], [1, null], [1, null]],
  ]);
  deepEqual(judge.graded.map(({ scenario, members }) => [scenario, members]), [["judged", [0, 2]]]);
  deepEqual(compared!.map(({ total_reward }) => total_reward), [0, null, 1]);
  const { stop_reason, status, failure, deterministic } = compared![1]!;
  deepEqual([stop_reason, status, failure, deterministic], [
    "environment_failed",
    "failed",
    { boundary: "environment", message: "no state" },
    false,
  ]);
  deepEqual(breakReasons(groups), { verify_failed: 1 });
});

Deno.test("a grader that grades no group of a scenario neither inspects its attempts nor is asked", async () => {
  const judge = rankingJudge();
  const grade = () => {
    throw new Error("there is nothing to verify");
  };
  const environment = testEnvironments({ coverage: () => "none", grade });
  // A step reward does not change that.
  const turns = [`${callText("reward", { value: 2 })}\n${callText("end")}`, saying("a")];
  const [group] = await judged({ judge, environment, turns, group_size: 2 });
  deepEqual([group!.graded_by, group!.members.map(({ stop_reason }) => stop_reason)], [
    "judge",
    ["completed", "completed"],
  ]);
});

const grades = (...rewards: number[]): GroupGrades => ({
  grades: rewards.map((reward) => ({ reward })),
  deterministic: true,
});

const BREAKS: [string, () => GroupGrades, RegExp][] = [
  ["throws", () => {
    throw new Error("no answer");
  }, /^no answer$/],
  ["leaves an attempt out", () => grades(1), /^it gave 1 grades for 2 attempts$/],
  ["gives no number", () => grades(1, NaN), /^the reward NaN is not a finite number$/],
];

for (const [what, instead, message] of BREAKS) {
  Deno.test(`a judge that ${what} costs only its group`, async () => {
    const judge = rankingJudge({ before: ({ id }) => id === "x" ? instead() : undefined });
    const scenarios = testScenarios("x", "y");
    const turns = ["a", "bb", "a", "bb"].map(saying);
    const groups = await judged({ judge, turns, scenarios, group_size: 2 });
    finish(groups);
    const [broken, whole] = groups;
    deepEqual([broken!.graded_by, broken!.status], [null, "ungraded"]);
    for (const { status, stop_reason, failure, total_reward, deterministic } of broken!.members) {
      deepEqual([status, stop_reason, total_reward], ["group_dropped", "completed", null]);
      deepEqual([failure!.boundary, deterministic], ["judge", false]);
      equal(message.test(failure!.message), true, failure!.message);
    }
    deepEqual(broken!.members.map(earnedReward), [null, null]);
    deepEqual([whole!.status, whole!.members.map(({ advantage }) => advantage)], ["kept", [-1, 1]]);
    const metrics = rolloutMetrics(groups, 1);
    deepEqual([metrics["judge/failed_fraction"], metrics["group/dropped_fraction"]], [1 / 2, 1 / 2]);
    deepEqual(lostReasons(groups), { judge_failed: 2 });
    equal(firstFailure(groups)!.scenario, "x");
  });
}

Deno.test('a judge that breaks fails the run under judge_failure = "fail"', async () => {
  const before = () => {
    throw new Error("no answer");
  };
  const settings = { judge_failure: "fail" as const };
  await rejects(
    judged({ judge: rankingJudge({ before }), turns: ["a", "bb"].map(saying), group_size: 2, settings }),
    {
      code: "judge_failed",
      message: 'Cannot grade the attempts at scenario "s": no answer; ' +
        'set agent.judge_failure = "drop_group" to go on without such groups',
    },
  );
});

Deno.test("only completed attempts are judged, and min_reward uses their grades", async () => {
  const turns = [saying("ccc"), saying("a"), callText("say", { text: "x" }), callText("fail")];
  const judge = rankingJudge();
  const settings = { max_turns: 1 };
  const groups = await judged({ judge, turns, group_size: 4, settings });
  deepEqual(judge.graded.map(({ members }) => members), [[0, 1]]);
  deepEqual(groups[0]!.members.map(({ total_reward }) => total_reward), [1, 0, null, null]);
  finish(groups, { truncation: "min_reward" });
  deepEqual(groups[0]!.members.map(({ total_reward }) => total_reward), [1, 0, 0, null]);
  const none = rankingJudge();
  const [unfinished] = await judged({ judge: none, turns: turns.slice(2), group_size: 2, settings });
  deepEqual([none.graded, unfinished!.graded_by], [[], "judge"], "there was nothing to send");
});

Deno.test("a judge that gives everyone the same makes a degenerate group", async () => {
  const groups = await judged({ judge: rankingJudge(), turns: ["a", "b"].map(saying), group_size: 2 });
  finish(groups);
  equal(groups[0]!.status, "degenerate");
  equal(rolloutMetrics(groups, 1)["judge/degenerate_group_fraction"], 1);
});

/** Metrics of three groups, of which a judge breaks for one and measures the others. */
async function measured(measures: GroupGrades["measures"][]): Promise<Record<string, number>> {
  const scenarios = testScenarios(...measures.map((_, i) => `s${i}`), "broken");
  const before = ({ id }: { id: string }) => {
    if (id === "broken") throw new Error("no answer");
    const own = measures[Number(id.slice(1))];
    return { ...grades(0, 1), ...(own && { measures: own }) };
  };
  const turns = scenarios.flatMap(() => ["a", "bb"].map(saying));
  const groups = await judged({ judge: rankingJudge({ before }), turns, scenarios, group_size: 2 });
  finish(groups);
  return rolloutMetrics(groups, 1);
}

Deno.test("a grader's own measures are metrics of the update: sums or means over the groups that have them", async () => {
  const metrics = await measured([
    { tokens: { value: 30, over_groups: "sum" }, score: { value: 0.25, over_groups: "mean" } },
    { tokens: { value: 12, over_groups: "sum" } },
    { score: { value: 1, over_groups: "mean" } },
  ]);
  const own = Object.entries(metrics).filter(([name]) => name.startsWith("judge/"));
  deepEqual(Object.fromEntries(own), {
    "judge/failed_fraction": 1 / 4,
    // The grades have no scores.
    "judge/degenerate_group_fraction": 0,
    "judge/tokens": 42,
    "judge/score": 1.25 / 2,
  });
});

Deno.test("a measure that is no number is the grader's failure, like such a reward", async () => {
  const metrics = await measured([{ tokens: { value: NaN, over_groups: "sum" } }, {}]);
  deepEqual([metrics["judge/failed_fraction"], metrics["judge/tokens"]], [2 / 3, undefined]);
});

Deno.test("a measure that takes the name of another metric, or combines in two ways, is a mistake", async () => {
  const shared = { failed_fraction: { value: 1, over_groups: "mean" as const } };
  await rejects(measured([shared]), /judge\/failed_fraction has one meaning/);
  const odd = { "tokens-used": { value: 1, over_groups: "sum" as const } };
  await rejects(measured([odd]), /a measure's name of a-z, 0-9 and _, not tokens-used/);
  const twice = (["sum", "mean"] as const).map((over_groups) => ({ tokens: { value: 1, over_groups } }));
  await rejects(measured(twice), /judge\/tokens combines in one way/);
});

Deno.test("grading does not occupy a slot: a judge that waits for the next group's attempts gets them", async () => {
  const other = Promise.withResolvers<void>();
  const judge = rankingJudge({ before: ({ id }) => id === "x" ? other.promise : other.resolve() });
  const scenarios = testScenarios("x", "y");
  const groups = await judged({ judge, turns: ["a", "bb", "a", "bb"].map(saying), scenarios, group_size: 2 });
  deepEqual(judge.graded.map(({ scenario }) => scenario).toSorted(), ["x", "y"]);
  deepEqual(groups.map(({ scenario }) => scenario), ["x", "y"]);
});

Deno.test("cancelling ends a judge that hangs", async () => {
  const stop = new AbortController();
  const judge = rankingJudge({ before: () => (stop.abort(), new Promise(() => {})) });
  const turns = ["a", "bb"].map(saying);
  await rejects(judged({ judge, turns, group_size: 2, signal: stop.signal }), { code: "cancelled" });
});
