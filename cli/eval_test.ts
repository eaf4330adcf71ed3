import assert from "node:assert/strict";
import type { Transcript } from "../agent/results/transcript.ts";
import { ServiceError } from "../core/errors.ts";
import type { EvaluationResult } from "../runs/algorithms/algorithm.ts";
import type { EvaluateOptions } from "./context.ts";
import { runCli } from "./program.ts";
import { runSvc, testContext, testTerminal } from "./context_fake.ts";

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
  failures: {},
  scenarios: [
    { scenario: "a", attempts: 2, passes: 2, rewards: [1, 1], stop_reasons: ["submitted", "submitted"] },
    { scenario: "b", attempts: 2, passes: 1, rewards: [0, 1], stop_reasons: ["max_turns", "submitted"] },
  ],
  by_example: { a: { sum: 1, weight: 1 }, b: { sum: 0.5, weight: 1 } },
  deterministic: true,
};

const TRANSCRIPT: Transcript = {
  scenario: "b",
  attempt: 1,
  attempts: 2,
  passed: false,
  reward: 0,
  stop_reason: "max_turns",
  failure: null,
  verification: { ended: "exited", code: 1, output: "no such\x07 file", capped: false },
  prompt: [{ role: "system", content: "Use tools." }, { role: "user", content: "Write\nit." }],
  turns: [{
    text: 'I write.\n{"name": "write_file"}',
    calls: [
      { name: "write_file", arguments: { path: "a" }, text: null, result: "ok\x1b[2J" },
      { name: "", arguments: null, text: "{", result: null },
    ],
  }],
};

async function evaluate(...args: string[]) {
  return await evaluated(RESULT, ...args);
}

async function evaluated(result: EvaluationResult, ...args: string[]) {
  const terminal = testTerminal({ interactive: args.includes("interactive") });
  let asked: EvaluateOptions | null = null;
  const code = await runCli(
    ["eval", ...args.filter((arg) => arg !== "interactive")],
    testContext({
      terminal,
      evaluate(options) {
        asked = options;
        options.warn({ code: "heldout_is_training", field: "evaluation.data", message: "the same\x1b[2J" });
        options.activity.show({ phase: "evaluation", done: 40, total: 200 });
        const transcripts = options.transcripts > 0 ? { transcripts: [TRANSCRIPT] } : {};
        return Promise.resolve({ ...result, ...transcripts });
      },
    }),
  );
  return { code, out: terminal.out, err: terminal.err, asked: asked as EvaluateOptions | null };
}

Deno.test("numbers on the command line replace those of the configuration", async () => {
  const { asked } = await evaluate(GRPO, "evaluation.max_examples=32");
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

Deno.test("the result is printed for people, or completely as JSON, and written to a file on request", async () => {
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

Deno.test("warnings about the configuration are printed on standard error", async () => {
  const { err, out } = await evaluate(GRPO, "--json");
  assert.equal(err, "svc: warning heldout_is_training (evaluation.data): the same\ufffd[2J\n");
  assert.match(out, /^\{/);
});

Deno.test("a loss comes with the number of rows, and how many of them were cut", async () => {
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

Deno.test("a path that cannot be written is refused before the first attempt", async () => {
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

Deno.test("a report replaces only a report, and never an input of the evaluation", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const model = `${folder}/model.gguf`, out = `${folder}/report.json`, config = `${folder}/run.toml`;
    for (const name of ["model.gguf", "held.jsonl", "train.jsonl", "adapter.gguf", "notes.json"]) {
      await Deno.writeTextFile(`${folder}/${name}`, name);
    }
    await Deno.symlink("model.gguf", `${folder}/link.json`);
    await Deno.symlink("notes.json", `${folder}/other.json`);
    const text = (await Deno.readTextFile(GRPO)).replace(/^path = .*$/m, 'path = "model.gguf"')
      .replace(/^scenarios = .*$/m, 'scenarios = "train.jsonl"').replace(
        /^data = .*$/m,
        'data = "held.jsonl"',
      );
    await Deno.writeTextFile(config, text);
    const refused: [string, RegExp][] = [
      ["model.gguf", /--out and model\.path are the same file/],
      ["link.json", /--out and model\.path are the same file/],
      ["held.jsonl", /--out and evaluation\.data are the same file/],
      ["adapter.gguf", /--out and --adapter are the same file/],
      ["run.toml", /--out and the configuration are the same file/],
      ["runs/run/adapter.gguf", /--out and output\.path are the same file/],
      ["runs/run/run.json", /--out lies in run\.directory/],
      ["notes.json", /holds no report/],
      ["other.json", /is a link/],
    ];
    for (const [name, reason] of refused) {
      const args = ["--out", `${folder}/${name}`, "--adapter", `${folder}/adapter.gguf`];
      const { code, err, asked } = await evaluate(config, ...args);
      assert.deepEqual([code, asked], [2, null], name);
      assert.match(err, reason, name);
    }
    // The outputs of this configuration's run can be evaluated, and an earlier report replaced.
    for (const adapter of [`${folder}/adapter.gguf`, `${folder}/runs/run/adapter.gguf`]) {
      assert.equal((await evaluate(config, "--out", out, "--adapter", adapter)).code, 0);
    }
    assert.equal(JSON.parse(await Deno.readTextFile(out)).model, model);
    assert.equal(await Deno.readTextFile(`${folder}/notes.json`), "notes.json");
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a configuration without held-out data is refused", async () => {
  const { code, err } = await runSvc("eval", `${EXAMPLES}tiny_agent_sft.toml`);
  assert.equal(code, 2);
  assert.match(err, /has no \[evaluation\]/);
});

Deno.test("a Ctrl-C aborts the evaluation, a second one exits at once", async () => {
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

Deno.test("a terminal shows the evaluation's progress, a file does not", async () => {
  const { out } = await evaluate(GRPO, "interactive");
  assert.ok(out.startsWith("held-out 40/200 for 0:00\r\x1b[2Kpass rate"), out);
  assert.match((await evaluate(GRPO)).out, /^pass rate/);
  assert.match((await evaluate(GRPO, "interactive", "--json")).out, /^\{/);
});

Deno.test("conversations are printed on request", async () => {
  const { out, asked } = await evaluate(GRPO, "--show", "5");
  assert.equal(asked!.transcripts, 5);
  assert.equal(
    out.slice(0, out.indexOf("pass rate")),
    `b, attempt 1 of 2: failed, reward 0
system: Use tools.
user: Write
  it.
assistant: I write.
  {"name": "write_file"}
tool write_file: ok�[2J
malformed call: (no result)
end: max_turns; verification exited with 1: no such� file

`,
  );
  // The value is not parsed as an argument, wherever the option is.
  assert.equal((await evaluate("--show", "5", GRPO)).asked!.transcripts, 5);
  assert.equal((await evaluate(GRPO)).asked!.transcripts, 0);
  const json = await evaluate(GRPO, "--show", "1", "--json");
  assert.deepEqual(JSON.parse(json.out).transcripts, [TRANSCRIPT]);
  const without = await evaluate(GRPO, "--show");
  assert.deepEqual([without.code, without.asked], [2, null]);
  assert.match(without.err, /option '--show <n>' argument missing/);
  for (const wrong of ["0", "1.5", "x"]) {
    const { code, err } = await evaluate(GRPO, "--show", wrong);
    assert.equal(code, 2);
    assert.match(err, /It must be: integer, at least 1/);
  }
});

Deno.test("an evaluation without attempts refuses to show them and the options of sampling", async () => {
  const refusal = async (name: string, ...options: string[]) => {
    const { code, err } = await runSvc("eval", `${EXAMPLES}tiny_agent_${name}.toml`, ...options);
    assert.equal(code, 2);
    return err;
  };
  const data = "evaluation.data=examples/tiny_agent_sft.toml";
  const shown = await refusal("sft", data, "--show", "1");
  assert.match(shown, /^svc: Cannot show conversations: sft scores held-out rows, without attempts/);
  for (const [option, value] of [["--samples", "4"], ["--temperature", "1"], ["--seed", "5"]] as const) {
    const err = await refusal("preference", option, value);
    assert.ok(
      err.startsWith(`svc: Cannot use ${option}: preference scores held-out rows, without attempts`),
      err,
    );
  }
});

Deno.test("overrides reach the configuration, and options go before them", async () => {
  const { asked } = await evaluate(
    GRPO,
    "evaluation.samples_per_scenario=5",
    "evaluation.seed=9",
    "--seed",
    "7",
  );
  const { samples_per_scenario, seed } = asked!.loaded.config.evaluation!;
  assert.deepEqual([samples_per_scenario, seed], [5, 7]);
});
