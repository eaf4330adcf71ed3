import assert from "node:assert/strict";
import { ManualClock } from "../../core/clock_fake.ts";
import { withFolder } from "../../tests/folder.ts";
import { startTestRun as start } from "../../tests/test_run.ts";
import type { Algorithm, EvaluationResult, UpdateResult } from "../algorithms/algorithm.ts";
import type { Objective } from "../record/objective.ts";
import { evenExample } from "../record/paired_comparison.ts";
import { eventsOf, ofKind, testPipe, useSft } from "../run_fake.ts";
import * as testing from "../run_fake.ts";
import { POLICY } from "../algorithms/algorithm.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

interface Given {
  updates: number | null;
  /** One for each evaluation; empty: no held-out data. */
  values?: readonly number[];
  metric?: Objective;
  duringUpdate?: () => Promise<void>;
  /** Of each update. */
  failures?: UpdateResult["failures"][];
  /** Of each evaluation. */
  heldout_failures?: EvaluationResult["failures"][];
}

/** An algorithm with given evaluations. */
class GivenAlgorithm implements Algorithm {
  readonly updates: number | null;
  readonly steps_per_update = 2;
  readonly objective: Algorithm["objective"];
  readonly rates: number[] = [];
  /** The requests of the updates: number, and examples seen before. */
  readonly told: { update: number; examples_seen: number }[] = [];
  evaluated = 0;

  constructor(readonly given: Given) {
    const { updates, values, metric = "eval/pass_rate" } = given;
    this.updates = updates;
    this.objective = values ? metric : null;
  }

  async runUpdate(
    { update, examples_seen, learningRate }: Parameters<Algorithm["runUpdate"]>[0],
  ): Promise<UpdateResult> {
    await this.given.duringUpdate?.();
    this.rates.push(learningRate(0), learningRate(1));
    this.told.push({ update, examples_seen });
    return {
      steps: [
        { step: 2 * update - 1, values: { "loss/policy": 1 } },
        { step: 2 * update, values: { "loss/policy": 2 } },
      ],
      values: { "reward/mean": update },
      groups: [],
      attempts: 0,
      lost: {},
      failures: this.given.failures?.[update - 1] ?? {},
      reward_mean: update,
      loss: 2,
      tokens: 100,
      examples_seen: examples_seen + 3,
      history: { s: { update, attempts: 4, passes: 1, failed: 0 } },
      deterministic: true,
    };
  }

  evaluate(): Promise<EvaluationResult> {
    const failures = this.given.heldout_failures?.[this.evaluated] ?? {};
    const value = this.given.values![this.evaluated++]!;
    const is_loss = this.given.metric === "eval/loss";
    return Promise.resolve({
      pass_rate: is_loss ? null : { rate: value, low: value, high: value, n: 1, attempts: 1 },
      reward_mean: null,
      loss: is_loss ? value : null,
      perplexity: null,
      rows: null,
      failed: {},
      failure: Object.values(failures)[0] ?? null,
      failures,
      scenarios: [],
      by_example: { a: evenExample(value), b: evenExample(value) },
      deterministic: true,
    });
  }
}

const evaluation = (more: string) => `
[evaluation]
data = "heldout.jsonl"
every_updates = 1
${more}
[checkpoint]
every_updates = 100
keep = 1
`;

Deno.test("patience ends the run after this many evaluations without an improvement", strict, async () => {
  await withFolder(async (root) => {
    const algorithm = new GivenAlgorithm({ updates: 20, values: [0.2, 0.4, 0.39, 0.4, 0.41, 0.3, 0.3, 0.3] });
    const run = await start({ root, algorithm, more: evaluation("patience = 3") });
    const events = await eventsOf(run);
    assert.equal(await run.ended, "completed");
    // 0.41 after update 4 is the best; updates 5, 6 and 7 are no better.
    assert.equal(ofKind(events, "update").length, 7);
    const kept = (await Array.fromAsync(Deno.readDir(`${root}/runs/test/checkpoints`))).map(({ name }) =>
      name
    );
    assert.deepEqual(kept.toSorted(), ["update_000004", "update_000007"]);
    const marked = ofKind(events, "checkpoint").map(({ name, best }) => [name, best]);
    // Among equals the later one is the best.
    const best = ["update_000001", "update_000003", "update_000004"].map((name) => [name, true]);
    assert.deepEqual(marked, [...best, ["update_000007", false]]);
  });
});

Deno.test(
  "patience counts gains above min_delta, the best is the best; a loss is better when it is lower",
  strict,
  async () => {
    await withFolder(async (root) => {
      const algorithm = new GivenAlgorithm({
        updates: 20,
        values: [1, 0.95, 0.85, 0.8, 0.78],
        metric: "eval/loss",
      });
      const run = await start({ root, algorithm, more: evaluation("patience = 2\nmin_delta = 0.1") });
      const events = await eventsOf(run);
      assert.equal(ofKind(events, "update").length, 4);
      const best = ofKind(events, "checkpoint").filter((event) => event.best).map(({ update }) => update);
      assert.deepEqual(best, [1, 2, 3, 4]);
    });
  },
);

Deno.test(
  "of each reason the first failure is logged, held-out or not, and again only with another message",
  strict,
  async () => {
    await withFolder(async (root) => {
      const failure = (message: string) => ({ scenario: "s", boundary: "environment" as const, message });
      const environment_failed = failure("no shell"), verify_failed = failure("no interpreter");
      // Two reasons may have one message.
      const verify_shell = failure("no shell");
      const failures = [
        { environment_failed, verify_failed },
        { verify_failed, environment_failed },
        { verify_failed: verify_shell },
      ];
      const heldout_failures = [
        { environment_failed, verify_failed: verify_shell },
        { verify_failed: verify_shell },
        { environment_failed },
        { environment_failed: failure("no disk") },
      ];
      const algorithm = new GivenAlgorithm({ updates: 3, failures, values: [1, 1, 1, 1], heldout_failures });
      const events = await eventsOf(await start({ root, algorithm, more: evaluation("") }));
      const logged = ofKind(events, "log").map(({ message }) => message);
      const first = 'first at scenario "s", of the environment';
      assert.deepEqual(logged.filter((message) => message.includes("attempts")), [
        `held-out attempts failed (environment_failed), ${first}: no shell`,
        `held-out attempts failed (verify_failed), ${first}: no shell`,
        `attempts of update 1 failed (environment_failed), ${first}: no shell`,
        `attempts of update 1 failed (verify_failed), ${first}: no interpreter`,
        `attempts of update 3 failed (verify_failed), ${first}: no shell`,
        `held-out attempts failed (environment_failed), ${first}: no disk`,
      ]);
      const shown = ofKind(events, "update").map((event) => event.failure?.message);
      assert.deepEqual(shown, ["no shell", "no interpreter", "no shell"]);
    });
  },
);

Deno.test(
  "step metrics and update metrics are separate events, and each value occurs once",
  strict,
  async () => {
    await withFolder(async (root) => {
      const run = await start({ root, algorithm: new GivenAlgorithm({ updates: 1 }), more: "" });
      const events = ofKind(await eventsOf(run), "metrics").map(({ update, step, values }) => ({
        update,
        step,
        values,
      }));
      assert.deepEqual(events, [
        { update: 1, step: 1, values: { "loss/policy": 1 } },
        { update: 1, step: 2, values: { "loss/policy": 2 } },
        { update: 1, step: 2, values: { "reward/mean": 1 } },
      ]);
    });
  },
);

Deno.test(
  "without every_updates a run is evaluated first and last, and its end compares the two",
  strict,
  async () => {
    await withFolder(async (root) => {
      const algorithm = new GivenAlgorithm({ updates: 3, values: [0.25, 0.75] });
      const run = await start({ root, algorithm, more: '[evaluation]\ndata = "heldout.jsonl"\n' });
      const events = await eventsOf(run);
      assert.deepEqual(ofKind(events, "evaluation").map(({ update }) => update), [0, 3]);
      const [end] = ofKind(events, "end");
      const { before, after } = end!.evaluation!;
      assert.deepEqual([before.value, after.value], [0.25, 0.75]);
    });
  },
);

Deno.test("every update gets the examples seen before it, in a resumed run too", strict, async () => {
  await withFolder(async (root) => {
    const more = "[checkpoint]\nevery_updates = 1\nkeep = 1\n";
    const pipe = testPipe();
    const first = new GivenAlgorithm({
      updates: 4,
      duringUpdate: () => {
        if (first.told.length === 1) pipe.send({ id: 1, command: "pause" });
        return Promise.resolve();
      },
    });
    const run = await start({ root, algorithm: first, more, start: { control: pipe.port } });
    assert.equal(await run.ended, "paused");
    const second = new GivenAlgorithm({ updates: 4 });
    await (await start({ root, algorithm: second, more, start: { mode: "resume" } })).ended;
    assert.ok(first.told.length > 0 && second.told.length > 0, "each had its share");
    assert.deepEqual([...first.told, ...second.told], [
      { update: 1, examples_seen: 0 },
      { update: 2, examples_seen: 3 },
      { update: 3, examples_seen: 6 },
      { update: 4, examples_seen: 9 },
    ]);
    const record = await Deno.readTextFile(`${root}/runs/test/checkpoints/update_000004/state.json`);
    assert.deepEqual(JSON.parse(record).state.history, {
      s: [1, 2, 3, 4].map((update) => ({ update, attempts: 4, passes: 1, failed: 0 })),
    });
  });
});

Deno.test("training evaluates the policy, never the base model", strict, async () => {
  await withFolder(async (root) => {
    // Every request that scores or samples names its adapter. SFT runs sample nothing, and agent runs score nothing
    // here.
    for (const [method, change] of [["score", useSft], ["sequence_open", undefined]] as const) {
      const asked: unknown[] = [];
      const run = await start({
        root: `${root}/${method}`,
        ...(change && { change }),
        refuse: (called, request) => {
          if (called === method) asked.push((request as { adapter: unknown }).adapter);
        },
      });
      const events = await eventsOf(run);
      assert.ok(ofKind(events, "evaluation").length >= 2);
      assert.ok(asked.length > 0 && asked.every((adapter) => adapter === POLICY), method);
    }
  });
});

Deno.test("the schedule runs over all steps of all updates", strict, async () => {
  await withFolder(async (root) => {
    const algorithm = new GivenAlgorithm({ updates: 2 });
    const change = (config: ReturnType<typeof testing.testRunConfig>) =>
      config.training.lr_scheduler = "linear";
    await (await start({ root, algorithm: algorithm, more: "", change })).ended;
    assert.deepEqual(algorithm.rates.map((rate) => +rate.toFixed(9)), [0.01, 0.0075, 0.005, 0.0025]);
  });
});

Deno.test(
  "max_minutes ends the run at the next update, and the run is not deterministic",
  strict,
  async () => {
    await withFolder(async (root) => {
      const clock = new ManualClock();
      const algorithm = new GivenAlgorithm({ updates: 9, duringUpdate: () => clock.advance(25_000) });
      const change = (config: ReturnType<typeof testing.testRunConfig>) => {
        useSft(config);
        config.training.max_minutes = 1;
      };
      const run = await start({ root, algorithm, more: "", clock, change });
      const events = await eventsOf(run);
      assert.equal(await run.ended, "completed");
      assert.deepEqual(ofKind(events, "update").map(({ eta_seconds }) => eta_seconds), [35, 10, 0]);
      assert.deepEqual(ofKind(events, "update").map(({ tokens_per_second }) => tokens_per_second), [4, 4, 4]);
      const end = events.at(-1)!;
      assert.ok(end.kind === "end" && !end.deterministic);
      assert.match(end.plot!, /loss by update/);
    });
  },
);

Deno.test("jumps of the wall clock change neither a run's time limit nor its estimates", strict, async () => {
  const run = (root: string, jump_ms: number) => {
    const clock = new ManualClock();
    const duringUpdate = () => {
      clock.jump(jump_ms *= -2);
      return clock.advance(25_000);
    };
    const change = (config: ReturnType<typeof testing.testRunConfig>) => {
      useSft(config);
      config.training.max_minutes = 1;
    };
    return start({
      root,
      algorithm: new GivenAlgorithm({ updates: 9, duringUpdate }),
      more: "",
      clock,
      change,
    });
  };
  await withFolder(async (root) => {
    const found = [];
    for (const [i, hours] of [0, 1, -1].entries()) {
      const events = await eventsOf(await run(`${root}/${i}`, hours * 3_600_000));
      const updates = ofKind(events, "update");
      found.push(
        updates.map(({ eta_seconds, tokens_per_second }) => `${eta_seconds} s, ${tokens_per_second}/s`),
      );
    }
    // 60 seconds are two updates of 25 seconds and one more.
    const expected = ["35 s, 4/s", "10 s, 4/s", "0 s, 4/s"];
    assert.deepEqual(found, [expected, expected, expected]);
  });
});

Deno.test(
  "a run that only time limits tells no number of updates, and its rate falls with the time",
  strict,
  async () => {
    await withFolder(async (root) => {
      const clock = new ManualClock(), pipe = testPipe();
      const change = (config: ReturnType<typeof testing.testRunConfig>) => {
        useSft(config);
        config.training.max_minutes = 1;
        config.training.lr_scheduler = "linear";
      };
      const more = "[checkpoint]\nevery_updates = 1\nkeep = 1\n", shared = { root, more, clock, change };
      const first = new GivenAlgorithm({
        updates: null,
        duringUpdate: async () => {
          if (first.told.length === 1) pipe.send({ id: 1, command: "pause" });
          await clock.advance(15_000);
        },
      });
      const run = await start({ ...shared, algorithm: first, start: { control: pipe.port } });
      const before = await eventsOf(run);
      assert.equal(await run.ended, "paused");
      const { deterministic } = JSON.parse(await Deno.readTextFile(`${root}/runs/test/run.json`));
      assert.equal(deterministic, false, "the rate of a slower machine would have been another");
      const second = new GivenAlgorithm({ updates: null, duringUpdate: () => clock.advance(15_000) });
      const resumed = await start({ ...shared, algorithm: second, start: { mode: "resume" } });
      const after = await eventsOf(resumed);
      assert.equal(await resumed.ended, "completed");
      const updates = ofKind([...before, ...after], "update");
      assert.deepEqual(
        updates.map(({ update, updates }) => [update, updates]),
        [1, 2, 3, 4].map((n) => [n, null]),
      );
      assert.deepEqual(updates.map(({ eta_seconds }) => eta_seconds), [45, 30, 15, 0]);
      // Both steps of an update begin after 0, 15, 30 and 45 seconds of 60.
      const rates = [...first.rates, ...second.rates].map((rate) => +rate.toFixed(9));
      assert.deepEqual(rates, [0.01, 0.01, 0.0075, 0.0075, 0.005, 0.005, 0.0025, 0.0025]);
    });
  },
);
