import assert from "node:assert/strict";
import type { ResolvedConfig } from "../../config/check/derive.ts";
import { ServiceError } from "../../core/errors.ts";
import { withFolder } from "../../tests/folder.ts";
import { startTestRun as start } from "../../tests/test_run.ts";
import type { RunEvent } from "../record/event.ts";
import { eventsOf, ofKind, testPipe } from "../run_fake.ts";
import type { Checkpoint } from "./checkpoint.ts";
import { forkedCheckpoint } from "./fork.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

/** A run of three updates, each with a checkpoint. A command changes its learning rate at the end of the first. */
async function parent(root: string, update = 2): Promise<string> {
  const pipe = testPipe();
  let steps = 0;
  const run = await start({
    root,
    start: { control: pipe.port },
    refuse: (method) => {
      if (method === "train_step" && ++steps === 1) pipe.send({ id: 1, command: "set_lr", lr: 0.5 });
    },
  });
  assert.deepEqual(ratesOf(await eventsOf(run)).slice(0, 2), [0.01, 0.5]);
  return `${root}/runs/test/checkpoints/update_00000${update}`;
}

const fork = async (root: string, checkpoint: string, change: (config: ResolvedConfig) => void) =>
  await eventsOf(await start({ root, change, start: { mode: "fork", checkpoint } }));

const ratesOf = (events: RunEvent[]) =>
  ofKind(events, "metrics").flatMap(({ values }) => values["optimizer/learning_rate"] ?? []);

Deno.test(
  "a fork's own training.lr counts; without one it keeps the rate that a command set",
  strict,
  async () => {
    await withFolder(async (root) => {
      const checkpoint = await parent(`${root}/parent`);
      const kept = await fork(`${root}/kept`, checkpoint, (config) => config.agent!.updates = 4);
      assert.deepEqual(ratesOf(kept)[0], 0.5);
      const told = ofKind(kept, "log").map(({ message }) => message);
      assert.match(
        told.join("\n"),
        /the learning rate 0\.5, which a command set .* training\.lr is 0\.01 as in the parent/,
      );
      const own = await fork(`${root}/own`, checkpoint, (config) => config.training.lr = 0.02);
      assert.deepEqual(ratesOf(own)[0], 0.02);
      assert.deepEqual(ofKind(own, "log"), []);
    });
  },
);

Deno.test("a fork with another evaluation has its own first evaluation", strict, async () => {
  await withFolder(async (root) => {
    // After update 1, when no evaluation is due.
    const checkpoint = await parent(`${root}/parent`, 1);
    const of = (events: RunEvent[]) => ofKind(events, "evaluation").map(({ n, update }) => [n, update]);
    const other = await fork(`${root}/other`, checkpoint, (config) => config.evaluation!.seed = 8);
    assert.deepEqual(of(other), [[1, 1], [2, 2], [3, 3]]);
    const [before, , after] = ofKind(other, "evaluation").map(({ pass_rate }) => pass_rate);
    const end = other.at(-1)!;
    assert.ok(end.kind === "end");
    const { evaluation } = end;
    assert.deepEqual([evaluation?.before.pass_rate, evaluation?.after.pass_rate], [before, after]);
    const same = await fork(`${root}/same`, checkpoint, (config) => config.evaluation!.patience = 9);
    assert.deepEqual(of(same), [[2, 2], [3, 3]]);
  });
});

Deno.test(
  "a fork that loses its device keeps the start of its own evaluations",
  strict,
  async () => {
    await withFolder(async (root) => {
      const checkpoint = await parent(`${root}/parent`);
      const events = await eventsOf(
        await start({
          root: `${root}/fork`,
          change: (config) => {
            config.evaluation!.seed = 8;
            config.training.lr = 0.02;
            Object.assign(config.checkpoint!, { every_updates: 50, best: false });
          },
          start: { mode: "fork", checkpoint },
          refuse: (method, _, engine) => {
            if (method === "train_step" && engine === 1) {
              throw new ServiceError("device_lost", "Cannot train: lost");
            }
          },
        }),
      );
      assert.deepEqual(ofKind(events, "evaluation").map(({ n, update }) => [n, update]), [[1, 2], [1, 2], [
        2,
        3,
      ]]);
      assert.deepEqual(ratesOf(events), [0.02]);
    });
  },
);

Deno.test(
  "a fork that stopped before its own first checkpoint is not resumed untrained",
  strict,
  async () => {
    await withFolder(async (root) => {
      const checkpoint = await parent(`${root}/parent`);
      const leave = Promise.withResolvers<void>();
      const options = { root: `${root}/fork`, more: "" };
      const run = await start({
        ...options,
        start: { mode: "fork", checkpoint },
        verify: () => (leave.resolve(), 1),
      });
      leave.promise.then(() => run.stop());
      assert.equal(await run.ended, "interrupted");
      await assert.rejects(start({ ...options, start: { mode: "resume" } }), {
        code: "conflict",
        message: /it is a fork without a checkpoint of its own; .* the checkpoint update_000002 of run run_/,
      });
      const again = await start({ ...options, start: { mode: "fork", checkpoint, force: true } });
      assert.deepEqual(ofKind(await eventsOf(again), "update").map(({ update }) => update), [3]);
    });
  },
);

const checkpointOf = (config: Record<string, unknown>): Checkpoint => ({
  name: "update_000005",
  directory: "/x/update_000005",
  size_bytes: 1,
  record: {
    format_version: 1,
    run: "r",
    created_at: "T",
    config_hash: "",
    config,
    metrics: { "eval/pass_rate": 0.5, "reward/mean": 0.25 },
    state: {
      update: 5,
      step: 5,
      examples_seen: 10,
      learning_rate: 0.5,
      evaluations: 3,
      evaluated_update: 4,
      best: { metric: "eval/pass_rate", value: 0.5, update: 4, pass_rate: null, by_example: {} },
      patience_value: 0.5,
      evaluations_since_gain: 1,
      before: null,
      latest: null,
      history: {},
      curve: [1, 2, 3, 4, 5],
      elapsed_seconds: 9,
      deterministic: true,
    },
    files: {},
  },
});

Deno.test("evaluations start anew with what is measured, and with no other key", () => {
  const config = {
    "agent.max_turns": 6,
    "evaluation.data": "a",
    "evaluation.every_updates": 2,
    "evaluation.min_delta": 0,
    "evaluation.seed": 1,
    "training.lr": 0.01,
  };
  const from = checkpointOf(config);
  const forked = (change: Record<string, unknown>) => forkedCheckpoint(from, { ...config, ...change }).record;
  for (const [key, value] of [["every_updates", 3], ["patience", 4], ["min_delta", 0.1]] as const) {
    const { state, ...rest } = forked({ [`evaluation.${key}`]: value });
    const { state: parent, ...same } = from.record;
    // Only patience is the fork's own: its parent may have ended because of it.
    assert.deepEqual([state, rest], [{ ...parent, evaluations_since_gain: 0 }, same], key);
  }
  const anew = [
    ["evaluation.data", "b"],
    ["evaluation.data", undefined],
    ["evaluation.max_examples", 8],
    ["evaluation.samples_per_scenario", 2],
    ["evaluation.temperature", 1],
    ["evaluation.seed", 2],
    ["agent.max_turns", 7],
    ["agent.max_new_tokens_per_turn", 7],
    ["agent.max_trajectory_tokens", 7],
  ] as const;
  for (const [key, value] of anew) {
    const { state, metrics } = forked({ [key]: value });
    assert.deepEqual(
      [state.evaluations, state.evaluated_update, state.best, state.patience_value],
      [0, null, null, null],
      key,
    );
    assert.deepEqual(metrics, { "reward/mean": 0.25 });
    assert.deepEqual([state.learning_rate, state.update, state.curve.length], [0.5, 5, 5]);
  }
  assert.equal(forked({ "training.lr": 0.02 }).state.learning_rate, null);
  assert.equal(from.record.state.evaluations, 3, "the parent's record stays as it is");
});
