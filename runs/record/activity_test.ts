import assert from "node:assert/strict";
import { withFolder } from "../../tests/folder.ts";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import { eventsOf, startTestRun, useSft } from "../run_fake.ts";
import { type Activity, ActivityFeed } from "./activity.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

Deno.test("a slow reader gets the newest activity, and the last one before the end", strict, async () => {
  const feed = new ActivityFeed();
  const reader = feed[Symbol.asyncIterator]();
  const shown = (done: number): Activity => ({ phase: "evaluation", done, total: 3 });
  feed.show(shown(1));
  feed.show(shown(2));
  assert.deepEqual((await reader.next()).value, shown(2));
  const waiting = reader.next();
  feed.show(shown(3));
  assert.deepEqual((await waiting).value, shown(3));
  feed.show(shown(1));
  feed.close();
  assert.deepEqual((await reader.next()).value, shown(1));
  assert.equal((await reader.next()).done, true);
});

/** All activities of a run. The feed keeps only the newest, so this listens where it is filled. */
async function activitiesOf(
  options: Omit<Parameters<typeof startTestRun>[0], "newEngine">,
): Promise<string[]> {
  const shown: string[] = [];
  const { show } = ActivityFeed.prototype;
  ActivityFeed.prototype.show = function (activity) {
    const { phase } = activity;
    const place = "update" in activity ? ` ${activity.update}/${activity.updates}` : "";
    shown.push(phase + place + ("done" in activity ? ` ${activity.done} of ${activity.total}` : ""));
    show.call(this, activity);
  };
  try {
    await eventsOf(
      await startTestRun({ ...options, newEngine: (refuse) => new ScriptedEngine({ refuse }).client }),
    );
  } finally {
    ActivityFeed.prototype.show = show;
  }
  return shown;
}

/** Keeps the first and the last count: attempts may be counted one by one or several at a time. */
function ends(shown: string[]): string[] {
  const name = (text: string) => text.replace(/\d+ of/, "of");
  return shown.filter((text, i) =>
    name(shown[i - 1] ?? "") !== name(text) || name(shown[i + 1] ?? "") !== name(text)
  );
}

Deno.test(
  "a run shows its evaluations, and its updates from the first attempt to the checkpoint",
  strict,
  async () => {
    await withFolder(async (root) => {
      const shown = await activitiesOf({ root, change: (config) => void (config.agent!.updates = 1) });
      // Three held-out scenarios with two attempts each; two groups of four.
      assert.deepEqual(ends(shown), [
        "evaluation 0 of 6",
        "evaluation 6 of 6",
        "rollouts 1/1 0 of 8",
        "rollouts 1/1 8 of 8",
        "training 1/1",
        "evaluation 0 of 6",
        "evaluation 6 of 6",
        "checkpoint 1/1",
      ]);
    });
  },
);

Deno.test("SFT shows its updates and the rows of its evaluations", strict, async () => {
  await withFolder(async (root) => {
    const shown = await activitiesOf({ root, change: useSft });
    assert.deepEqual(shown.slice(0, 3), ["evaluation 0 of 1", "training 1/5", "checkpoint 1/5"]);
  });
});

Deno.test("a run's activity ends with the run and is not an event", strict, async () => {
  await withFolder(async (root) => {
    const run = await startTestRun({ root, newEngine: (refuse) => new ScriptedEngine({ refuse }).client });
    const [events, activities] = await Promise.all([eventsOf(run), Array.fromAsync(run.activity)]);
    assert.equal(events.at(-1)!.kind, "end");
    assert.ok(activities.length > 0);
    const text = await Deno.readTextFile(`${root}/runs/test/events.jsonl`);
    assert.ok(!text.includes('"phase"'));
  });
});
