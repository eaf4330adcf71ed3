import assert from "node:assert/strict";
import { ServiceError } from "../core/errors.ts";
import type { EvaluationResult } from "../runs/algorithm.ts";
import type { EvaluateOptions } from "./context.ts";
import { runCli } from "./program.ts";
import { runCommand, testContext, testTerminal } from "./testing.ts";

const EXAMPLES = new URL("../examples/", import.meta.url).pathname;
const GRPO = `${EXAMPLES}tiny_agent_grpo.toml`;

const RESULT: EvaluationResult = {
  pass_rate: { rate: 0.75, low: 0.5, high: 0.9, n: 2, attempts: 4 },
  reward_mean: 0.75,
  loss: null,
  perplexity: null,
  rows: null,
  failed: {},
  failure: null,
  scenarios: [
    { scenario: "a", attempts: 2, passes: 2, rewards: [1, 1], stop_reasons: ["submitted", "submitted"] },
    { scenario: "b", attempts: 2, passes: 1, rewards: [0, 1], stop_reasons: ["max_turns", "submitted"] },
  ],
  by_example: { a: 1, b: 0.5 },
  deterministic: true,
};

async function evaluate(...args: string[]) {
  return await evaluated(RESULT, ...args);
}

async function evaluated(result: EvaluationResult, ...args: string[]) {
  const terminal = testTerminal();
  let asked: EvaluateOptions | null = null;
  const code = await runCli(
    ["eval", ...args],
    testContext({
      terminal,
      evaluate(options) {
        asked = options;
        return Promise.resolve(result);
      },
    }),
  );
  return { code, out: terminal.out, err: terminal.err, asked: asked as EvaluateOptions | null };
}

Deno.test("numbers of the command line take the place of the configuration's", async () => {
  const { asked } = await evaluate(GRPO);
  const before = asked!.loaded.config.evaluation!;
  assert.deepEqual([before.samples_per_scenario, before.max_examples, asked!.adapter], [2, 32, null]);
  const args = ["--samples", "8", "--temperature", "0", "--limit", "5", "--seed", "7", "--adapter", "x.gguf"];
  const changed = await evaluate(GRPO, ...args);
  const after = changed.asked!.loaded.config.evaluation!;
  assert.deepEqual(
    [after.samples_per_scenario, after.temperature, after.max_examples, after.seed, after.data],
    [8, 0, 5, 7, before.data],
  );
  assert.equal(changed.asked!.adapter, "x.gguf");
});

Deno.test("numbers outside of their key's limits are refused", async () => {
  for (
    const [option, value] of [["--samples", "0"], ["--samples", "1.5"], ["--temperature", "-1"], [
      "--seed",
      "",
    ]]
  ) {
    const { code, err, asked } = await evaluate(GRPO, option!, value!);
    assert.deepEqual([code, asked], [2, null], `${option} ${value}`);
    assert.match(err, /It must be: (integer|number), /);
  }
});

Deno.test("the result is printed for people, or whole as JSON, and written where asked", async () => {
  const { code, out } = await evaluate(GRPO);
  assert.equal(code, 0);
  assert.equal(
    out,
    "pass rate 75.0 % (95 % interval 50.0 to 90.0; n = 2 scenarios, 4 attempts)\n" +
      "2 of 2 scenarios were solved at least once\nmean reward 0.7500\n",
  );
  const path = await Deno.makeTempFile();
  try {
    const json = await evaluate(GRPO, "--json", "--out", path, "--adapter", "x.gguf");
    assert.equal(await Deno.readTextFile(path), json.out);
    const { model, adapter, ...result } = JSON.parse(json.out);
    assert.match(model, /tiny-agent-f16\.gguf$/);
    assert.equal(adapter, "x.gguf");
    assert.deepEqual(result, RESULT);
  } finally {
    await Deno.remove(path);
  }
});

Deno.test("a loss says of how many rows it is, and how many were cut", async () => {
  const loss = { ...RESULT, pass_rate: null, reward_mean: null, loss: 1.25, perplexity: 3.49, scenarios: [] };
  const { out } = await evaluated({ ...loss, rows: { n: 20, truncated: 3 } }, GRPO);
  assert.equal(out, "loss 1.250000 (n = 20 rows, 3 of them cut at training.ctx)\nperplexity 3.4900\n");
});

Deno.test("attempts that failed are counted and named", async () => {
  const failure = {
    scenario: "b",
    boundary: "environment" as const,
    message: "Cannot set up scenario: it broke",
  };
  const { out } = await evaluated({ ...RESULT, failed: { environment_failed: 1 }, failure }, GRPO);
  assert.match(
    out,
    /\n1 of 4 attempts failed \(1 environment_failed\) and count as not passed, first of the environment: Cannot set/,
  );
});

Deno.test("a place that cannot be written is refused before anything is tried", async () => {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(`${folder}/file`, "");
    for (const out of [folder, `${folder}/file/x.json`]) {
      const { code, err, asked } = await evaluate(GRPO, "--out", out);
      assert.deepEqual([code, asked], [2, null]);
      assert.match(err, /^svc: Cannot write --out .*: .*not a (regular file|folder)\n$/);
    }
    assert.equal((await evaluate(GRPO, "--out", `${folder}/new/x.json`)).code, 0);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a configuration without held-out data is refused", async () => {
  const { code, err } = await runCommand("eval", `${EXAMPLES}tiny_agent_sft.toml`);
  assert.equal(code, 2);
  assert.match(err, /has no \[evaluation\]/);
});

Deno.test("a Ctrl-C gives the evaluation up, a second one leaves at once", async () => {
  const exits: number[] = [];
  const terminal = testTerminal();
  let interrupt = () => {};
  const code = await runCli(
    ["eval", GRPO],
    testContext({
      onInterrupt(callback) {
        interrupt = callback;
        return () => {};
      },
      exit: (code) => exits.push(code),
      evaluate({ signal }) {
        interrupt();
        assert.deepEqual(exits, []);
        interrupt();
        assert.ok(signal.aborted);
        return Promise.reject(new ServiceError("cancelled", "Cannot finish the rollouts: cancelled"));
      },
      terminal,
    }),
  );
  assert.deepEqual([code, exits], [130, [130]]);
  assert.equal(terminal.err, "svc: Cannot finish the evaluation: interrupted\n");
});
