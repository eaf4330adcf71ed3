import assert from "node:assert/strict";
import { join } from "node:path";
import { composeWorld } from "../../agent/configured.ts";
import { systemClock } from "../../core/clock.ts";
import { environmentGrader } from "../../agent/grading/environment_grader.ts";
import { rankingJudge } from "../../agent/grading/ranking_judge_fake.ts";
import { TEST_TOOLS } from "../../agent/rollout/rollout_fake.ts";
import { fakeToolHost } from "../../agent/tools/tool_host_fake.ts";
import { withFolder } from "../../tests/folder.ts";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import { eventsOf, failAt, ofKind, startTestRun, type TestRunOptions } from "../run_fake.ts";

const newEngine: TestRunOptions["newEngine"] = (refuse) => new ScriptedEngine({ refuse }).client;

const strict = { sanitizeOps: true, sanitizeResources: true };

/** A run whose environment verifies nothing, and whose judge fails at the first group of every update but the first. */
async function judgedRun(root: string, change: TestRunOptions["change"] = () => {}) {
  let groups = 0;
  const judge = rankingJudge({
    before: () => {
      if (groups++ % 2 === 0 && groups > 2) throw new Error("no answer");
    },
  });
  const run = await startTestRun({
    root,
    change,
    graders: [environmentGrader({ coverage: () => "none" }), judge],
    newEngine: (refuse) => new ScriptedEngine({ refuse }).client,
  });
  return { run, judge, events: await eventsOf(run) };
}

Deno.test(
  "a run trains with a judge, loses the groups for which it fails, and evaluates without it",
  strict,
  async () => {
    await withFolder(async (root) => {
      const { run, judge, events } = await judgedRun(root, ({ agent }) => agent!.max_dropped_fraction = 0.5);
      assert.equal(await run.ended, "completed");
      const updates = ofKind(events, "update"), metrics = ofKind(events, "metrics");
      assert.deepEqual(updates.map(({ lost }) => lost), [{}, { judge_failed: 4 }, { judge_failed: 4 }]);
      assert.deepEqual(updates[1]!.failure?.boundary, "judge");
      const shares = metrics.flatMap(({ values }) => values["judge/failed_fraction"] ?? []);
      assert.deepEqual(shares, [0, 1 / 2, 1 / 2]);
      assert.deepEqual(metrics.flatMap(({ values }) => values["judge/ranked"] ?? []), [2, 1, 1]);
      assert.deepEqual(updates.map(({ optimizer_steps }) => optimizer_steps), [1, 1, 1]);
      assert.equal(judge.graded.length, 4);
      const judged = new Set(judge.inspected.map((attempt) => attempt.split("/")[0]!));
      const evaluated = ofKind(events, "evaluation").flatMap(({ scenarios }) => scenarios ?? []);
      assert.ok(evaluated.length > 0 && !evaluated.some(({ scenario }) => judged.has(scenario)));
    });
  },
);

Deno.test('a judge that breaks ends the run under judge_failure = "fail"', strict, async () => {
  await withFolder(async (root) => {
    const { run, events } = await judgedRun(root, ({ agent }) => agent!.judge_failure = "fail");
    assert.equal(await run.ended, "failed");
    const [end] = ofKind(events, "end");
    assert.equal(end!.reason, "judge_failed");
    assert.match(end!.detail!, /^Cannot grade the attempts at scenario "..": no answer; set agent\.judge/);
    assert.equal(ofKind(events, "update").length, 1);
  });
});

/** Fails a run in its second update and resumes it, with a file of judgements that changes between. */
function resumedWithJudgements(
  between: (cache_path: string, checkpoint: string) => Promise<void>,
  after: string,
): Promise<void> {
  return withFolder(async (root) => {
    const cache_path = join(root, "judgements.jsonl");
    const change: TestRunOptions["change"] = ({ agent }) => {
      const endpoint = { base_url: "http://x", model: "m", timeout_secs: 1 };
      agent!.judge = { type: "ruler", ...endpoint, permute: true, cache_path };
    };
    await Deno.writeTextFile(cache_path, "kept\n");
    const first = await startTestRun({ root, change, refuse: failAt("train_step", 2), newEngine });
    assert.equal(await first.ended, "failed");
    await between(cache_path, join(root, "runs/test/checkpoints/update_000001/judgements.jsonl"));
    const run = await startTestRun({ root, change, newEngine, start: { mode: "resume" } });
    assert.equal(await run.ended, "completed");
    assert.equal(await Deno.readTextFile(cache_path), after);
  });
}

Deno.test(
  "a checkpoint has the kept judgements, and a run resumed from it gets them back if they are gone",
  strict,
  () =>
    resumedWithJudgements(async (cache_path, checkpoint) => {
      assert.equal(await Deno.readTextFile(checkpoint), "kept\n");
      await Deno.remove(cache_path);
    }, "kept\n"),
);

Deno.test(
  "judgements that are there stay when a run is resumed",
  strict,
  () =>
    resumedWithJudgements((cache_path) => Deno.writeTextFile(cache_path, "kept\nlater\n"), "kept\nlater\n"),
);

Deno.test(
  "a run without an environment trains with a judge and the tools of another host",
  strict,
  async () => {
    await withFolder(async (root) => {
      const judge = rankingJudge();
      const host = fakeToolHost({
        tools: TEST_TOOLS,
        call: ({ name }) => ({ result: null, reward: null, done: name === "submit" }),
      });
      const run = await startTestRun({
        root,
        more: "",
        // A configuration without [agent.environment] needs a grader that this build lacks, so the parts are given here.
        world: composeWorld({ environments: null, hosts: [host], graders: [judge], clock: systemClock }),
        newEngine: (refuse) => new ScriptedEngine({ refuse }).client,
      });
      const events = await eventsOf(run);
      assert.equal(await run.ended, "completed");
      const updates = ofKind(events, "update");
      assert.deepEqual(
        updates.map(({ optimizer_steps, lost }) => [optimizer_steps, lost]),
        Array(3).fill([1, {}]),
      );
      // Three updates of two groups with four attempts each.
      assert.deepEqual([judge.graded.length, judge.inspected.length], [6, 24]);
      assert.deepEqual([host.count.listed, host.count.opened, host.count.closed], [1, 24, 24]);
    });
  },
);
