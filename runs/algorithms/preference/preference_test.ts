import assert from "node:assert/strict";
import { ManualClock } from "../../../core/clock_fake.ts";
import { PREFERENCE_LOSS_NAMES, type PreferenceLoss } from "../../../core/preference_loss.ts";
import type { EngineMethods } from "../../../trainer/protocol/protocol.ts";
import { ScriptedEngine } from "../../../trainer/engine/scripted_engine_fake.ts";
import { testConfig } from "../../config_testing.ts";
import { skipSteps } from "../../run_fake.ts";
import { preference as definition } from "./definition.ts";
import type { PairData, TokenPair } from "./pair_rows.ts";
import { Preference, REFERENCE } from "./preference.ts";

const PROMPT = [3, 14, 15, 9];

/** A preference pair, given by tokens. */
function pair(line: number, chosen: number[], rejected: number[]): TokenPair {
  const completion = (tokens: number[]) => [{
    tokens: Uint32Array.from([...PROMPT, ...tokens]),
    loss_mask: Uint8Array.from([...PROMPT.map(() => 0), ...tokens.map(() => 1)]),
    trained_tokens: tokens.length,
  }];
  return { chosen: completion(chosen), rejected: completion(rejected), prefix_length: PROMPT.length, line };
}

const dataOf = (...pairs: TokenPair[]): PairData => ({
  pairs,
  rows: pairs.length,
  truncated: [],
  left_out: [],
});

const TRAINING = dataOf(pair(1, [20, 21], [30, 31, 32]), pair(2, [20, 22], [31, 33]));
/** The tokens in which they differ are those of the training pairs. */
const HELDOUT = dataOf(pair(1, [20, 40], [30, 41]), pair(2, [20], [31]));
const signal = new AbortController().signal;

async function preferenceOn(
  loss: PreferenceLoss,
  { init_adapter = false, heldout = HELDOUT }: { init_adapter?: boolean; heldout?: PairData | null } = {},
) {
  const config = testConfig("/nowhere");
  config.run.algorithm = "preference";
  config.preference = { data: "", loss, beta: 0.5, gamma: 1, lambda: 0.1 };
  config.training.batch_tokens = 40;
  config.training.epochs = 8;
  if (init_adapter) config.lora.init_adapter = "start.gguf";
  const requests: [string, unknown][] = [];
  const engine =
    new ScriptedEngine({ refuse: (method, request) => void requests.push([method, request]) }).client;
  const lora = { rank: 8, alpha: 16, targets: ["q_proj" as const] };
  for (const adapter of ["policy", ...(init_adapter ? [REFERENCE] : [])]) {
    await engine.call("adapter_open", { adapter, source: { type: "init", lora, seed: 1 } });
  }
  const options = { config, data: TRAINING, heldout, engine, adapter: "policy", clock: new ManualClock() };
  const preference = new Preference(options);
  let examples_seen = 0;
  const update = async (n: number) => {
    const result = await preference.runUpdate({ update: n, examples_seen, learningRate: () => 0.1, signal });
    examples_seen = result.examples_seen;
    return result;
  };
  const asked = <M extends keyof EngineMethods>(method: M) =>
    requests.filter(([name]) => name === method).map(([, request]) => request as EngineMethods[M]["request"]);
  return { preference, update, asked, engine, config };
}

for (const loss of PREFERENCE_LOSS_NAMES) {
  Deno.test(`${loss}: updates raise the held-out margin and lower the held-out loss`, async () => {
    const { preference, update } = await preferenceOn(loss);
    assert.equal(preference.updates, 8);
    const before = await preference.evaluate({ adapter: "policy", signal });
    for (let n = 1; n <= preference.updates!; n++) await update(n);
    const after = await preference.evaluate({ adapter: "policy", signal });
    assert.ok(after.values!["eval/margin"]! > before.values!["eval/margin"]! + 0.05);
    assert.ok(after.loss! < before.loss!);
    assert.equal(after.values!["eval/accuracy"], 1);
    assert.deepEqual(after.rows, { n: 2, truncated: 0 });
    assert.deepEqual(await preference.evaluate({ adapter: "policy", signal }), after, "nothing is sampled");
  });
}

Deno.test("the loss of the first dpo update is log 2, and its metrics are those of the pairs", async () => {
  const { update, asked, preference } = await preferenceOn("dpo");
  const { loss, steps, examples_seen } = await update(1);
  // The reference's log-probabilities are f32, as in every answer of an engine; the scripted engine computes in f64.
  assert.ok(Math.abs(loss! - Math.log(2)) < 1e-6);
  assert.equal(examples_seen, 2);
  const { values } = steps[0]!;
  assert.equal(values["loss/preference"], loss);
  assert.ok(Math.abs(values["preference/margin"]!) < 1e-6);
  const second = (await update(2)).steps[0]!.values;
  const margin = second["preference/chosen_score"]! - second["preference/rejected_score"]!;
  assert.ok(margin > 0 && Math.abs(second["preference/margin"]! - margin) < 1e-6);
  assert.equal(second["preference/accuracy"], 1);
  const [request] = asked("train_step");
  assert.ok(request!.loss.type === "preference" && request!.loss.normalizer === 2);
  assert.equal(preference.objective, "eval/loss");
});

Deno.test("the reference is the base model, or the initial adapter", async () => {
  const references = async (loss: PreferenceLoss, init_adapter: boolean) => {
    const { update, asked } = await preferenceOn(loss, { init_adapter });
    await update(1);
    return asked("score").map(({ adapter }) => adapter);
  };
  assert.deepEqual(await references("dpo", false), [null]);
  assert.deepEqual(await references("ipo", true), [REFERENCE]);
  assert.deepEqual(await references("simpo", true), []);
  assert.deepEqual(await references("orpo", false), []);
  const { config } = await preferenceOn("dpo", { init_adapter: true });
  const file = { adapter: REFERENCE, source: { type: "file", path: "start.gguf" } };
  for (const use of ["updates", "evaluations"] as const) {
    assert.deepEqual(definition.adapters(config, use), [file], use);
  }
  config.preference!.loss = "orpo";
  assert.deepEqual(definition.adapters(config, "updates"), []);
});

Deno.test("an evaluation uses at most its limit of pairs, with any adapter or none", async () => {
  const { preference, update } = await preferenceOn("simpo");
  await update(1);
  const one = await preference.evaluate({ adapter: "policy", signal, limit: 1 });
  assert.deepEqual(Object.keys(one.by_example), ["1"]);
  const base = await preference.evaluate({ adapter: null, signal });
  assert.notEqual(base.loss, (await preference.evaluate({ adapter: "policy", signal })).loss);
  assert.equal((await preferenceOn("dpo", { heldout: null })).preference.objective, null);
});

Deno.test("a skipped step ends the run", async () => {
  const { update, engine } = await preferenceOn("dpo");
  skipSteps(engine);
  await assert.rejects(update(1), /Cannot go on after update 1: its loss or gradient is not finite/);
});
