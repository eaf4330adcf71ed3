import assert from "node:assert/strict";
import type { Grader } from "../../agent/grading/grader.ts";
import type { ResolvedConfig } from "../../config/check/derive.ts";
import { ManualClock } from "../../core/clock_fake.ts";
import { withFolder } from "../../tests/folder.ts";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import { eventsOf, ofKind, startTestRun, usePreference, useSft } from "../run_fake.ts";

/** The names in the first column of the tables of "Metrics of training". */
async function documented(): Promise<string[]> {
  const text = await Deno.readTextFile(new URL("../../docs/reference/runs.md", import.meta.url));
  const section = text.split("\n## ").find((part) => part.startsWith("Metrics of training\n"))!;
  const cells = section.split("\n").filter((line) => line.startsWith("| `")).map((line) =>
    line.split("|")[1]!
  );
  return cells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name!));
}

/** A clock that advances at every reading, so that all rates can be computed. */
class TickingClock extends ManualClock {
  #ticks = 0;

  override monotonic_ms(): number {
    return super.monotonic_ms() + ++this.#ticks;
  }
}

/** Grades as a reward program does. */
const REWARD: Grader = {
  ...{ source: "reward", grades_evaluations: true, shared_measures: ["failed_fraction"] },
  coverage: () => "all",
  grade: ({ attempts }) =>
    Promise.resolve({ grades: attempts.map((_, i) => ({ reward: i })), deterministic: true }),
};

/** The names in the `metrics` events of a run. */
async function emitted(
  change: (config: ResolvedConfig) => void,
  graders?: readonly Grader[],
): Promise<string[]> {
  const names = new Set<string>();
  await withFolder(async (root) => {
    const run = await startTestRun({
      root,
      change,
      newEngine: (refuse) => new ScriptedEngine({ refuse }).client,
      clock: new TickingClock(),
      verify: (_, said) => said.join("").length % 2,
      ...(graders && { graders }),
    });
    const events = await eventsOf(run);
    assert.equal(await run.ended, "completed");
    for (const { values } of ofKind(events, "metrics")) {
      for (const name of Object.keys(values)) names.add(name);
    }
  });
  return [...names];
}

Deno.test(
  "the reference lists every metric that runs emit, once, and no other",
  { sanitizeOps: true, sanitizeResources: true },
  async () => {
    const grpo = await emitted(({ agent }) =>
      Object.assign(agent!, { kl_coefficient: 0.1, max_update_kl: 1e-3 })
    );
    const rewarded = await emitted(() => {}, [REWARD]);
    const others = [...rewarded, ...await emitted(useSft), ...await emitted(usePreference)];
    assert.deepEqual((await documented()).toSorted(), [...new Set([...grpo, ...others])].toSorted());
  },
);
