import assert from "node:assert/strict";
import { ManualClock } from "../../../core/clock_fake.ts";
import type { EngineMethods } from "../../../trainer/protocol/protocol.ts";
import { ScriptedEngine } from "../../../trainer/engine/scripted_engine_fake.ts";
import { evaluationDifference, evaluationRecord } from "../../record/evaluation_record.ts";
import { testConfig } from "../../config_testing.ts";
import { skipSteps } from "../../run_fake.ts";
import { Sft } from "./sft.ts";
import type { SftData, SftSequence } from "./sft_rows.ts";

const sequence = (length: number, trained: number, first = 1): SftSequence => ({
  tokens: Uint32Array.from({ length }, (_, i) => (first + 5 * i) % 64),
  loss_mask: Uint8Array.from({ length }, (_, i) => i >= length - trained ? 1 : 0),
  trained_tokens: trained,
  line: first,
});

async function sftOn(data: SftData, heldout: SftData | null, packing = true) {
  const config = testConfig("/nowhere");
  config.sft = { data: "", packing, train_on: "assistant", template_variables: {} };
  config.training.batch_tokens = 40;
  const requests: EngineMethods["train_step"]["request"][] = [];
  const engine = new ScriptedEngine({
    refuse: (method, request) => {
      if (method === "train_step") requests.push(request as EngineMethods["train_step"]["request"]);
    },
  }).client;
  const lora = { rank: 8, alpha: 16, targets: ["q_proj" as const] };
  await engine.call("adapter_open", { adapter: "policy", source: { type: "init", lora, seed: 1 } });
  const clock = new ManualClock();
  const sft = new Sft({ config, data, heldout, engine, adapter: "policy", clock });
  return { sft, engine, requests, config };
}

const dataOf = (...sequences: SftSequence[]): SftData => ({
  sequences,
  rows: sequences.length,
  truncated: [],
});
const signal = new AbortController().signal;

Deno.test("without packing a row counts as ctx, whatever its length", async () => {
  const data = dataOf(...Array.from({ length: 7 }, () => sequence(10, 1)));
  const updates = async (packing: boolean) => (await sftOn(data, null, packing)).sft.updates;
  // A step of 40 tokens holds four rows of 10; a row of ctx tokens gets its own step.
  assert.deepEqual([await updates(true), await updates(false)], [2, 7]);
});

Deno.test("the normaliser is the sum of the masks over the step, and the loss the mean over its tokens", async () => {
  const data = dataOf(sequence(20, 3, 1), sequence(20, 9, 2));
  const { sft, engine, requests, config } = await sftOn(data, null);
  assert.equal(sft.updates, 1);
  const result = await sft.runUpdate({ update: 1, examples_seen: 0, learningRate: () => 0.5, signal });
  assert.deepEqual(requests[0]!.loss, { type: "sft", normalizer: 12 });
  assert.equal(requests[0]!.optimizer.learning_rate, 0.5);
  assert.equal(requests[0]!.optimizer.max_grad_norm, config.training.max_grad_norm);
  const { logprobs } = await engine.call("score", { adapter: null, samples: requests[0]!.samples });
  const expected = -logprobs.flatMap((row) => [...row]).reduce((a, b) => a + b, 0) / 12;
  assert.ok(Math.abs(result.loss! - expected) < 1e-6);
  assert.equal(result.steps[0]!.step, 1);
  assert.equal(result.examples_seen, 2);
});

Deno.test("an evaluation reports its number of rows, and how many were cut", async () => {
  const data = { ...dataOf(sequence(20, 3, 1), sequence(20, 9, 2), sequence(20, 9, 3)), truncated: [2, 3] };
  // The third row has two sequences, as when a template changes earlier turns.
  data.sequences.push(sequence(20, 4, 3));
  const { sft } = await sftOn(data, data);
  const { by_example, loss } = await sft.evaluate({ adapter: "policy", signal });
  const tokens = Object.fromEntries(Object.entries(by_example).map(([line, { weight }]) => [line, weight]));
  assert.deepEqual(tokens, { 1: 3, 2: 9, 3: 9 + 4 });
  assert.equal(Object.values(by_example).reduce((total, { sum }) => total + sum, 0) / 25, loss);
  const rows = async (limit?: number) =>
    (await sft.evaluate({ adapter: "policy", signal, ...(limit !== undefined && { limit }) })).rows;
  assert.deepEqual([await rows(), await rows(2), await rows(1)], [
    { n: 3, truncated: 2 },
    { n: 2, truncated: 1 },
    { n: 1, truncated: 0 },
  ]);
});

Deno.test("an epoch of updates trains on every row once", async () => {
  const data = dataOf(sequence(20, 3, 1), sequence(20, 9, 2), sequence(20, 5, 3));
  const { sft, requests, config } = await sftOn(data, null);
  let seen = 0;
  for (let update = 1; update <= sft.updates!; update++) {
    const request = { update, examples_seen: seen, learningRate: () => 0.5, signal };
    const { examples_seen } = await sft.runUpdate(request);
    assert.equal(examples_seen, seen + requests.at(-1)!.samples.length);
    seen = examples_seen;
  }
  assert.equal(config.training.epochs, 1);
  const learned = requests.flatMap(({ samples }) => samples.map(({ tokens }) => tokens[0]));
  assert.deepEqual(learned.toSorted(), [1, 2, 3]);
});

Deno.test("every key of the optimiser reaches the engine", async () => {
  const { sft, requests, config } = await sftOn(dataOf(sequence(20, 3, 1)), null);
  const keys = { beta1: 0.81, beta2: 0.93, eps: 3e-7, weight_decay: 0.02, max_grad_norm: 0.7 };
  Object.assign(config.training, keys);
  await sft.runUpdate({ update: 1, examples_seen: 0, learningRate: () => 0.5, signal });
  assert.deepEqual(requests[0]!.optimizer, { learning_rate: 0.5, ...keys });
});

Deno.test("a skipped step ends the update", async () => {
  const { sft, engine } = await sftOn(dataOf(sequence(20, 3, 1)), null);
  skipSteps(engine);
  await assert.rejects(sft.runUpdate({ update: 1, examples_seen: 0, learningRate: () => 0.5, signal }), {
    code: "loss_not_finite",
  });
});

Deno.test("the difference of two evaluations of the same rows is that of their losses", async () => {
  const data = dataOf(sequence(20, 1, 1), sequence(20, 19, 2), sequence(20, 5, 3));
  const { sft } = await sftOn(data, data);
  const record = async (update: number) =>
    evaluationRecord(update, "eval/loss", await sft.evaluate({ adapter: "policy", signal }));
  const before = await record(0);
  await sft.runUpdate({ update: 1, examples_seen: 0, learningRate: () => 0.5, signal });
  const after = await record(1);
  assert.notEqual(after.value, before.value);
  assert.equal(
    evaluationDifference(before, after, { seed: 1 })!.difference,
    after.value - before.value,
  );
});

Deno.test("held-out loss weighs tokens, not rows, and falls when the same rows are trained on", async () => {
  const data = dataOf(sequence(20, 3, 1), sequence(20, 9, 2));
  const { sft } = await sftOn(data, data);
  const evaluate = () => sft.evaluate({ adapter: "policy", signal });
  const before = await evaluate();
  // One step with a learning rate of zero has the mean over all trained tokens as its loss.
  const { loss } = await sft.runUpdate({ update: 1, examples_seen: 0, learningRate: () => 0, signal });
  assert.ok(Math.abs(before.loss! - loss!) < 1e-6);
  assert.ok(Math.abs(before.perplexity! - Math.exp(before.loss!)) < 1e-12);
  await sft.runUpdate({ update: 1, examples_seen: 0, learningRate: () => 0.5, signal });
  assert.ok((await evaluate()).loss! < before.loss!);
  assert.equal((await sft.evaluate({ adapter: null, signal })).loss, before.loss);
  assert.notEqual((await sft.evaluate({ adapter: null, limit: 1, signal })).loss, before.loss);
});
