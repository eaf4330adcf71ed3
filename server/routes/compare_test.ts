import assert from "node:assert/strict";
import type { ResolvedConfig } from "../../config/check/derive.ts";
import type { EventData } from "../../runs/record/event.ts";
import { type Example, pairedBootstrap } from "../../runs/record/paired_comparison.ts";
import { useSft } from "../../runs/run_fake.ts";
import { withFolder } from "../../tests/folder.ts";
import { testApp } from "../app_testing.ts";
import { metrics, runsOf, storedRun, writeEvents } from "../runs_testing.ts";

const NOTHING = { reward_mean: null, perplexity: null, rows: null, failed: {}, failure: null, scenarios: [] };

/** An evaluation of scenarios: how many of `attempts` passed, by scenario. */
function onScenarios(n: number, passes: Record<string, number>, attempts = 1): EventData[] {
  const scenarios = Object.entries(passes).map(([scenario, passes]) => ({
    scenario,
    attempts,
    passes,
    rewards: [],
    stop_reasons: [],
  }));
  const rate = scenarios.reduce((sum, { passes }) => sum + passes / attempts, 0) / scenarios.length;
  const pass_rate = { rate, low: 0, high: 1, n: scenarios.length, attempts: scenarios.length * attempts };
  return [
    { kind: "evaluation", n, update: n, ...NOTHING, loss: null, pass_rate, scenarios },
    metrics(n, { "eval/pass_rate": rate }),
  ];
}

/** An evaluation of rows, by line. */
function onRows(n: number, by_row: Record<string, Example>): EventData[] {
  const sum = (key: keyof Example) => Object.values(by_row).reduce((total, row) => total + row[key], 0);
  const loss = sum("sum") / sum("weight");
  return [
    { kind: "evaluation", n, update: n, ...NOTHING, loss, pass_rate: null, by_row },
    metrics(n, { "eval/loss": loss }),
  ];
}

interface Given {
  id: string;
  events: readonly EventData[];
  change?: (config: ResolvedConfig) => void;
}

async function withRuns(
  given: readonly Given[],
  body: (get: (query: string) => ReturnType<ReturnType<typeof testApp>["send"]>) => Promise<void>,
): Promise<void> {
  await withFolder(async (root) => {
    const runs = given.map(({ id, change }) => storedRun(root, id, change));
    for (const [i, { events }] of given.entries()) {
      if (events.length > 0) await writeEvents(runs[i]!.directory!, events);
    }
    const { send } = testApp({ runs: runsOf(...runs) });
    await body((query) => send(`/v1/compare?${query}`));
  });
}

const SEVEN = { a: 0, b: 0, c: 0, constructor: 0, e: 1, f: 1, g: 0 };

Deno.test("two runs are compared scenario by scenario", async () => {
  const after = { ...SEVEN, a: 1, b: 1, c: 1, constructor: 1, e: 0 };
  await withRuns(
    [{ id: "A", events: onScenarios(1, SEVEN) }, { id: "B", events: onScenarios(1, after) }],
    async (get) => {
      const { status, json } = await get("runs=A,B");
      assert.equal(status, 200);
      assert.deepEqual(json.runs[0], {
        id: "A",
        name: "a",
        algorithm: "agent_grpo",
        state: "completed",
        evaluation: { n: 1, update: 1, metric: "eval/pass_rate", value: 2 / 7 },
      });
      assert.match(json.methods.difference, /paired bootstrap: .* 10,000 times, .* fewer than 6 examples/);
      assert.match(json.methods.mcnemar, /McNemar's exact test, two-sided/);
      const [{ difference, outcomes, ...rest }] = json.comparisons;
      // Four won, one lost: 2 · (C(5,0) + C(5,1)) / 2⁵.
      assert.deepEqual(rest, {
        before: "A",
        after: "B",
        metric: "eval/pass_rate",
        measured_differently: [],
        examples: { common: 7, only_before: 0, only_after: 0 },
        mcnemar: { gained: 4, lost: 1, p_value: 0.375 },
        note: null,
      });
      assert.deepEqual(
        outcomes.map(({ example, outcome }: Record<string, string>) => `${example} ${outcome}`),
        [
          "a win",
          "b win",
          "c win",
          "constructor win",
          "e loss",
          "f tie",
          "g tie",
        ],
      );
      assert.deepEqual(outcomes[4], { example: "e", before: 1, after: 0, outcome: "loss" });
      const sides = [SEVEN, after].map((side) =>
        Object.values(side).map((sum) => ({ sum: Number(sum), weight: 1 }))
      );
      assert.deepEqual(difference, pairedBootstrap(sides[0]!, sides[1]!, { seed: 0, bound: 1 }));
      assert.ok(
        Math.abs(difference.difference - 3 / 7) < 1e-12 && difference.low! < 3 / 7 &&
          difference.high! > 3 / 7,
      );
    },
  );
});

Deno.test("evaluations of other scenarios are compared over the common ones, and the answer says so", async () => {
  const colder = (config: ResolvedConfig) => {
    config.evaluation = { data: "heldout.jsonl", temperature: 0 } as never;
  };
  await withRuns([
    { id: "A", events: onScenarios(1, { a: 2, b: 0, c: 2 }, 2), change: (config) => colder(config) },
    {
      id: "B",
      events: onScenarios(1, { d: 2, b: 1, a: 2 }, 2),
      change: (config) => (colder(config), config.evaluation!.temperature = 1),
    },
  ], async (get) => {
    const [compared] = (await get("runs=A,B")).json.comparisons;
    assert.deepEqual(compared.examples, { common: 2, only_before: 1, only_after: 1 });
    assert.deepEqual(compared.difference, { difference: 0.25, low: null, high: null, n: 2 });
    assert.deepEqual(compared.mcnemar, { gained: 1, lost: 0, p_value: 1 });
    assert.deepEqual(compared.measured_differently, ["evaluation.temperature"]);
    assert.equal(
      compared.note,
      "Only the 2 common examples are compared; 1 are only in the first evaluation, 1 only in the second. The evaluations " +
        "differ in evaluation.temperature, which may explain a part of the difference.",
    );
  });
});

Deno.test("rows are compared by their losses, where less is better", async () => {
  const row = (sum: number, weight: number) => ({ sum, weight });
  const supervised = (config: ResolvedConfig) => {
    useSft(config);
    config.evaluation = { data: "rows.jsonl" } as never;
  };
  const other = (config: ResolvedConfig) => (supervised(config), config.evaluation!.data = "others.jsonl");
  await withRuns([
    { id: "A", events: onRows(1, { 1: row(8, 4), 2: row(6, 2) }), change: supervised },
    { id: "B", events: onRows(1, { 1: row(4, 4), 2: row(8, 2) }), change: supervised },
    { id: "C", events: onRows(1, { 1: row(4, 4) }), change: other },
    { id: "D", events: onScenarios(1, { a: 1 }), change: supervised },
    { id: "E", events: onRows(1, { 1: row(4, 4) }) },
    { id: "F", events: [], change: supervised },
    { id: "G", events: onRows(1, { 3: row(4, 4) }), change: supervised },
  ], async (get) => {
    const { runs, comparisons } = (await get("runs=A,B,C,D,E,F,G")).json;
    const [b, ...refused] = comparisons;
    assert.deepEqual(b.outcomes, [
      { example: "1", before: 2, after: 1, outcome: "win" },
      { example: "2", before: 3, after: 4, outcome: "loss" },
    ]);
    // (4 + 8) / 6 − (8 + 6) / 6.
    assert.ok(Math.abs(b.difference.difference + 1 / 3) < 1e-12);
    assert.deepEqual([b.metric, b.mcnemar, b.note], ["eval/loss", null, null]);
    assert.deepEqual(refused.map(({ note }: { note: string }) => note), [
      "Nothing is compared: rows of different files cannot be paired.",
      "Nothing is compared: one evaluation measures eval/loss, the other eval/pass_rate.",
      "Nothing is compared: the losses are of different kinds.",
      "Nothing is compared: F has no such evaluation.",
      "Nothing is compared: the evaluations have no example in common.",
    ]);
    for (const { difference, mcnemar, outcomes } of refused) {
      assert.deepEqual([difference, mcnemar, outcomes], [null, null, []]);
    }
    assert.deepEqual(refused.map(({ metric }: { metric: string }) => metric), [
      null,
      null,
      null,
      null,
      "eval/loss",
    ]);
    assert.equal(runs[5].evaluation, null);
  });
});

Deno.test("the first, best, last or a numbered evaluation is compared", async () => {
  const events = [0, 1, 0].flatMap((passes, i) => onScenarios(i + 1, { a: passes }));
  await withRuns([{ id: "A", events }, { id: "B", events: onScenarios(2, { a: 1 }) }], async (get) => {
    const chosen = async (query: string) =>
      (await get(`runs=A,B${query}`)).json.runs.map(({ evaluation }: { evaluation: { n: number } | null }) =>
        evaluation?.n ?? null
      );
    assert.deepEqual(await chosen(""), [3, 2]);
    assert.deepEqual(await chosen("&evaluation=last"), [3, 2]);
    assert.deepEqual(await chosen("&evaluation=first"), [1, 2]);
    assert.deepEqual(await chosen("&evaluation=best"), [2, 2]);
    assert.deepEqual(await chosen("&evaluation=1"), [1, null]);
    const { comparisons } = (await get("runs=A,B&evaluation=1")).json;
    assert.equal(comparisons[0].note, "Nothing is compared: B has no such evaluation.");
    for (const wrong of ["0", "", "newest", "1.5", "-1", "9999999999"]) {
      const { status, json } = await get(`runs=A,B&evaluation=${wrong}`);
      assert.deepEqual([status, json.errors[0].pointer, json.errors[0].code], [
        422,
        "/query/evaluation",
        "invalid_value",
      ]);
    }
  });
});

Deno.test("only keys that differ are listed, without the runs' own names and paths", async () => {
  const change = (config: ResolvedConfig) => {
    config.training.lr = 0.5;
    config.training.max_minutes = 5;
    config.run.name = "other";
  };
  await withRuns([{ id: "A", events: [] }, { id: "B", events: [], change }], async (get) => {
    const { configuration, comparisons } = (await get("runs=A,B")).json;
    const lr = configuration.find(({ key }: { key: string }) => key === "training.lr");
    assert.deepEqual(lr, { key: "training.lr", values: [0.01, 0.5] });
    const minutes = configuration.find(({ key }: { key: string }) => key === "training.max_minutes");
    assert.deepEqual(minutes.values, [null, 5]);
    const keys = configuration.map(({ key }: { key: string }) => key);
    assert.deepEqual(keys.filter((key: string) => /^(run|output|checkpoint|observe)\./.test(key)), []);
    assert.equal(configuration.every(({ values }: { values: unknown[] }) => values.length === 2), true);
    assert.deepEqual(comparisons[0].measured_differently, []);
    assert.deepEqual((await get("runs=A,B")).json.metrics, []);
  });
});

Deno.test("metrics are aligned by update", async () => {
  const series = (values: readonly number[]) => values.map((value, i) => metrics(i + 1, { x: value }));
  await withRuns([
    { id: "A", events: [...series([1, 2, 3, 4]), metrics(4, { only_a: 1 })] },
    { id: "B", events: series([10, 20]) },
  ], async (get) => {
    const all = (await get("runs=A,B")).json.metrics;
    assert.deepEqual(all[1], {
      name: "x",
      points: [[1, 10], [2, 20], [3, null], [4, null]].map((values, i) => ({
        first_update: i + 1,
        last_update: i + 1,
        values,
      })),
    });
    assert.deepEqual(all[0].points, [{ first_update: 4, last_update: 4, values: [1, null] }]);
    // Updates 1 and 2 in the first half, 3 and 4 in the second.
    assert.deepEqual((await get("runs=A,B&points=2&names=x")).json.metrics, [{
      name: "x",
      points: [
        { first_update: 1, last_update: 2, values: [1.5, 15] },
        { first_update: 3, last_update: 4, values: [3.5, null] },
      ],
    }]);
    // Updates 1 and 2, 3, and 4: ⌊3 (u − 1) / 4⌋.
    assert.deepEqual(
      (await get("runs=A,B&points=3&names=x")).json.metrics[0].points.map((
        { first_update, last_update }: Record<string, number>,
      ) => [first_update, last_update]),
      [[1, 2], [3, 3], [4, 4]],
    );
  });
});

Deno.test("runs that are not there are all listed, at /query/runs", async () => {
  await withRuns([{ id: "A", events: [] }], async (get) => {
    for (const ids of ["X,A,Y", "A,__proto__,constructor", "%00,A,%F0%9F%98%80"]) {
      const { status, json } = await get(`runs=${ids}`);
      const entries = json.errors.map(({ pointer, code }: Record<string, string>) => `${pointer} ${code}`);
      assert.deepEqual([status, entries], [404, ["/query/runs not_found", "/query/runs not_found"]], ids);
    }
  });
});

Deno.test("two to eight different runs are compared", async () => {
  const ids = Array.from({ length: 9 }, (_, i) => `R${i}`);
  await withRuns(ids.map((id) => ({ id, events: [] })), async (get) => {
    assert.equal((await get(`runs=${ids.slice(0, 8)}`)).json.comparisons.length, 7);
    assert.equal((await get("runs=R0,R1")).status, 200);
    const cases: [string, string, string][] = [
      ["", "/query/runs", "missing_field"],
      ["runs=R0", "/query/runs", "invalid_value"],
      [`runs=${ids}`, "/query/runs", "invalid_value"],
      ["runs=R0,R0", "/query/runs", "invalid_value"],
      ["runs=R0,,R1", "/query/runs", "invalid_value"],
      ["runs=R0,R1&points=0", "/query/points", "out_of_range"],
      ["runs=R0,R1&points=201", "/query/points", "out_of_range"],
      ["runs=R0,R1&name=x", "/query/name", "unknown_field"],
    ];
    for (const [query, pointer, code] of cases) {
      const { status, json } = await get(query);
      assert.deepEqual([status, json.errors[0].pointer, json.errors[0].code], [422, pointer, code], query);
    }
  });
});
