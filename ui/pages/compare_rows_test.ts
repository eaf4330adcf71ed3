import assert from "node:assert/strict";
import type { Comparison, RunScenario } from "../../api/types.ts";
import { allKeys, differingKeys, exampleRows, isDecided, scenarioRows } from "./compare_rows.ts";

const configuration = [{ key: "training.lr", values: [1e-3, null] }, {
  key: "lora.targets",
  values: ["all", [
    ...["q_proj"],
  ]],
}];

Deno.test("the keys that differ are the server's, and a key that is not set is none", () => {
  assert.deepEqual(differingKeys({ configuration }), [
    { key: "training.lr", values: ["0.001", null], differs: true },
    { key: "lora.targets", values: ['"all"', '["q_proj"]'], differs: true },
  ]);
});

Deno.test("all keys stand by name, and what the server does not call different is not", () => {
  const configs = [
    { run: { name: "a", seed: 1 }, training: { lr: 1e-3 }, lora: { targets: "all" } },
    { run: { name: "b", seed: 1 }, lora: { targets: ["q_proj"] } },
  ];
  assert.deepEqual(allKeys({ configuration }, configs), [
    { key: "lora.targets", values: ['"all"', '["q_proj"]'], differs: true },
    { key: "run.name", values: ['"a"', '"b"'], differs: false },
    { key: "run.seed", values: ["1", "1"], differs: false },
    { key: "training.lr", values: ["0.001", null], differs: true },
  ]);
});

type Outcome = Comparison["outcomes"][number];

function outcome(example: string, [before, after]: [number, number], outcome: Outcome["outcome"]): Outcome {
  return { example, before, after, outcome };
}

Deno.test("wins and losses of several runs stand in one row for each example", () => {
  const comparisons: Pick<Comparison, "outcomes">[] = [
    { outcomes: [outcome("s1", [0, 1], "win"), outcome("s2", [0.5, 0.5], "tie")] },
    { outcomes: [outcome("s2", [0.5, 0], "loss"), outcome("s3", [1, 1], "tie")] },
  ];
  const rows = exampleRows(comparisons);
  assert.deepEqual(rows, [
    { example: "s1", outcomes: [{ value: 0, outcome: null }, { value: 1, outcome: "win" }, null] },
    {
      example: "s2",
      outcomes: [{ value: 0.5, outcome: null }, { value: 0.5, outcome: "tie" }, {
        value: 0,
        outcome: "loss",
      }],
    },
    { example: "s3", outcomes: [{ value: 1, outcome: null }, null, { value: 1, outcome: "tie" }] },
  ]);
  assert.deepEqual(rows.map(isDecided), [true, true, false]);
  assert.deepEqual(exampleRows([{ outcomes: [] }]), []);
});

Deno.test("scenarios that more runs met come first, each in the order of the first run that met it", () => {
  const met = (scenario: string, passes: number) => ({ scenario, passes }) as RunScenario;
  const rows = scenarioRows([[met("a", 1), met("b", 2), met("c", 3)], [
    met("c", 4),
    met("d", 5),
    met("b", 6),
  ]]);
  assert.deepEqual(rows.map(({ scenario, runs }) => [scenario, ...runs.map((run) => run?.passes ?? null)]), [
    ["b", 2, 6],
    ["c", 3, 4],
    ["a", 1, null],
    ["d", null, 5],
  ]);
});
