/** The checks of the engine's contract that score and train. */

import { deepEqual, equal, notDeepEqual, ok, rejects } from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import {
  close,
  generate,
  near,
  open,
  OPTIMIZER,
  sample,
  score,
  someTokens,
  step,
  type TestedEngine,
  withAdapter,
} from "./engine_testing.ts";
import type { LossRequest, OptimizerRequest, TrainStepResult } from "../protocol/protocol.ts";

export async function checkScore(engine: TestedEngine): Promise<void> {
  const prompt = someTokens(4, 37);
  const sequence = await open(engine, prompt);
  const generated = await generate(engine, { sequence, max_tokens: 30, sampling: { temperature: 1 } });
  const scored = await score(engine, null, [sample([...prompt, ...generated.tokens], 37)]);
  equal(scored[0]!.length, 30);
  scored[0]!.forEach((lp, i) => near(lp, generated.logprobs[i]!, engine.logprob_tolerance));
  await close(engine, sequence);
}

export async function checkAdapters(engine: TestedEngine): Promise<void> {
  const { client } = engine;
  await withAdapter(engine, async (adapter) => {
    const samples = [sample(someTokens(6, 20), 10)];
    const loss: LossRequest = { type: "sft", normalizer: 10 };
    const base = await score(engine, null, samples);
    deepEqual(await score(engine, adapter, samples), base, "B is zero");
    const sequence = await open(engine, [1], { adapter });
    await rejects(
      step(engine, { adapter, samples, loss }),
      (e: unknown) => e instanceof ServiceError && e.code === "conflict",
    );
    await close(engine, sequence);
    const first = await step(engine, { adapter, samples, loss });
    deepEqual([first.version, first.step, first.skipped], [1, 1, false]);
    ok(first.grad_norm > 0);
    const trained = await score(engine, adapter, samples);
    notDeepEqual(trained, base, "the sampler and the scorer see the step");
    deepEqual(await score(engine, null, samples), base, "the base stays");
    const copy = `${adapter}_copy`;
    await client.call("adapter_open", { adapter: copy, source: { type: "copy", adapter } });
    const second = await step(engine, { adapter, samples, loss });
    deepEqual([second.version, second.step], [2, 2]);
    deepEqual(await score(engine, copy, samples), trained, "a copy stays as it was");
    await client.call("adapter_close", { adapter: copy });
  });
}

/** An interpolation shortens the last step, down to nothing. The moments stay those of the full step. */
export async function checkInterpolate(engine: TestedEngine): Promise<void> {
  const { client } = engine;
  await withAdapter(engine, async (adapter) => {
    const samples = [sample(someTokens(6, 20), 10)];
    const loss: LossRequest = { type: "sft", normalizer: 10 };
    await step(engine, { adapter, samples, loss });
    const before = await score(engine, adapter, samples);
    const origin = `${adapter}_origin`;
    await client.call("adapter_open", { adapter: origin, source: { type: "copy", adapter } });
    await step(engine, { adapter, samples, loss });
    const whole = await score(engine, adapter, samples);
    const move = (scale: number, from = origin) =>
      client.call("adapter_interpolate", { adapter, from, scale });
    equal((await move(0.5)).version, 3, "the values are new");
    const half = await score(engine, adapter, samples);
    const mean = (rows: number[][]) => rows.flat().reduce((a, b) => a + b) / rows.flat().length;
    ok(mean(before) < mean(half) && mean(half) < mean(whole), "half a step is between both ends");
    await move(0);
    deepEqual(await score(engine, adapter, samples), before, "no step at all, bit for bit");
    deepEqual(await score(engine, origin, samples), before, "the origin stays");
    equal((await step(engine, { adapter, samples, loss })).step, 3, "the optimiser goes on");
    const sequence = await open(engine, [1], { adapter });
    const refused = (code: string) => (e: unknown) => e instanceof ServiceError && e.code === code;
    await rejects(move(0.5), refused("conflict"));
    await close(engine, sequence);
    for (const scale of [-0.1, 1.1, NaN]) await rejects(move(scale), refused("config_invalid"));
    await client.call("adapter_close", { adapter: origin });
  });
}

/** The divergence is over all tokens. With every token as a target it follows from their log-probabilities. */
export async function checkDivergence(engine: TestedEngine): Promise<void> {
  const { client } = engine;
  await withAdapter(engine, async (adapter) => {
    const samples = [sample(someTokens(6, 20), 10), sample(someTokens(40, 90), 2)];
    const diverge = async (from: string | null, to: string | null) =>
      (await client.call("divergence", { from, adapter: to, samples })).divergences.map((row) => [...row]);
    const none = await diverge(null, adapter);
    deepEqual(none.map((row) => row.length), [10, 88]);
    ok(none.flat().every((kl) => Math.abs(kl) < 1e-9), "B is zero");
    const loss: LossRequest = { type: "sft", normalizer: 10 };
    const optimizer = { ...OPTIMIZER, learning_rate: 0.05 };
    for (let i = 0; i < 3; i++) await step(engine, { adapter, samples, loss, optimizer });
    const [there, back] = [await diverge(null, adapter), await diverge(adapter, null)];
    ok(there.flat().every((kl) => kl > 0) && back.flat().every((kl) => kl > 0));
    notDeepEqual(there, back, "the divergence is not symmetric");
    // With every id as the target after one context, the test has both distributions and computes their divergence.
    const context = someTokens(6, 11), vocabulary = engine.vocabulary;
    const every = Array.from(
      { length: vocabulary },
      (_, id) => sample([...context, id], context.length, { prefix_length: context.length, trajectory: id }),
    );
    const [p, q] = [(await score(engine, null, every)).flat(), (await score(engine, adapter, every)).flat()];
    const expected = p.reduce((sum, lp, v) => sum + Math.exp(lp) * (lp - q[v]!), 0);
    const { divergences: [alone] } = await client.call("divergence", {
      from: null,
      adapter,
      samples: [sample([...context, 1], context.length)],
    });
    // Log-probabilities have an error of about 1e-6, and so does their mean difference.
    ok(expected > 1e-4, String(expected));
    near(alone![0]!, expected, 2e-6 + 1e-3 * expected);
  });
}

export async function checkSftLoss(engine: TestedEngine): Promise<void> {
  await withAdapter(engine, async (adapter) => {
    const samples = [sample(someTokens(1, 24), 8), sample(someTokens(30, 9), 1)];
    const scored = (await score(engine, adapter, samples)).flat();
    equal(scored.length, 16 + 8);
    const loss: LossRequest = { type: "sft", normalizer: 24 };
    const first = await step(engine, { adapter, samples, loss });
    near(first.loss, -scored.reduce((a, b) => a + b) / 24, engine.logprob_tolerance);
    equal(first.trained_tokens, 24);
    first.samples.flatMap((m) => [...m.logprobs]).forEach((lp, i) =>
      near(lp, scored[i]!, engine.logprob_tolerance)
    );
    ok(first.samples.every((m) => m.entropies.every((h) => h > 0 && h < Math.log(1e6))));
    let last = first;
    for (let i = 0; i < 5; i++) last = await step(engine, { adapter, samples, loss });
    ok(last.loss < first.loss, "five steps lower it");
  });
}

/** Compares two steps with one changed setting to two steps with the default settings. */
export async function checkOptimizer(engine: TestedEngine): Promise<void> {
  const tokens = someTokens(2, 20), from = 8, loss: LossRequest = { type: "sft", normalizer: 12 };
  const other = [...tokens.slice(0, from), ...tokens.slice(from).reverse()];
  const samples = [sample(tokens, from)], steps = [samples, [sample(other, from)]];
  const afterTwo = async (change: Partial<OptimizerRequest>): Promise<number[]> => {
    let scored: number[] = [];
    await withAdapter(engine, async (adapter) => {
      const optimizer = { ...OPTIMIZER, ...change };
      for (const samples of steps) await step(engine, { adapter, samples, loss, optimizer });
      scored = (await score(engine, adapter, samples)).flat();
    });
    return scored;
  };
  const usual = await afterTwo({});
  deepEqual(await afterTwo({}), usual, "the same keys give the same bits");
  const changes: Partial<OptimizerRequest>[] = [
    { learning_rate: 0.02 },
    { beta1: 0.5 },
    { beta2: 0.5 },
    { eps: 1e-2 },
    { weight_decay: 5 },
    // The gradient is far below eps, so it no longer determines the size of the step.
    { max_grad_norm: 1e-8 },
  ];
  deepEqual(changes.flatMap((change) => Object.keys(change)), Object.keys(OPTIMIZER), "no key is forgotten");
  for (const change of changes) {
    const changed = await afterTwo(change);
    const most = Math.max(...changed.map((logprob, i) => Math.abs(logprob - usual[i]!)));
    ok(most > 10 * engine.logprob_tolerance, `${JSON.stringify(change)} moves a log-probability by ${most}`);
  }
}

/** Advantages and old log-probabilities chosen so that every case of the clip occurs. */
export async function checkPolicyLoss(engine: TestedEngine): Promise<void> {
  await withAdapter(engine, async (adapter) => {
    const tokens = someTokens(12, 12), from = 8;
    const plain = sample(tokens, from);
    const logprobs = (await score(engine, adapter, [plain]))[0]!;
    const advantage = [1, 1, -1, -1], log_ratio = [0.5, -0.5, 0.5, -0.5];
    const place = (values: number[]) => Float32Array.from(tokens, (_, t) => values[t - from] ?? 0);
    const samples = [sample(tokens, from, {
      advantages: place(advantage),
      old_logprobs: place(logprobs.map((lp, i) => lp - log_ratio[i]!)),
    })];
    const policy = {
      type: "policy",
      clip_low: 0.2,
      clip_high: 0.28,
      kl_coefficient: 0,
      normalizer: 4,
    } as const;
    const loss = { ...policy, importance_sampling_level: "token" } as const;
    const result = await step(engine, { adapter, samples, loss });
    // −min(w·A, clip(w)·A): 1.28 and e^−0.5 for A = 1, −e^0.5 and −0.8 for A = −1.
    near(result.loss, (-1.28 - Math.exp(-0.5) + Math.exp(0.5) + 0.8) / 4, 20 * engine.logprob_tolerance);
    deepEqual([...result.samples[0]!.clipped], [1, 0, 0, -1]);
    result.samples[0]!.ratios.forEach((w, i) =>
      near(w, Math.exp(log_ratio[i]!), 20 * engine.logprob_tolerance)
    );
    const fresh = [sample(tokens, from, { advantages: place(advantage) })];
    const on_policy = await step(engine, { adapter, samples: fresh, loss });
    near(on_policy.loss, 0, 20 * engine.logprob_tolerance);
    deepEqual(
      [...on_policy.samples[0]!.ratios],
      [1, 1, 1, 1],
      "without old log-probabilities every ratio is 1",
    );
  });
}

/** Two pairs, each with a shared prompt. With a new adapter the policy equals its reference. */
export async function checkPreferenceLoss(engine: TestedEngine): Promise<void> {
  const pairs = [0, 1].flatMap((trajectory) =>
    [4, 9].map((length, side) => {
      const tokens = [...someTokens(30 + trajectory, 12), ...someTokens(40 + 2 * trajectory + side, length)];
      return sample(tokens, 12, { trajectory, prefix_group: trajectory, prefix_length: 12 });
    })
  );
  const rejected = [false, true, false, true];
  const request = { type: "preference", beta: 0.5, gamma: 1, lambda: 0, rejected, normalizer: 2 } as const;
  await withAdapter(engine, async (adapter) => {
    const scored = await score(engine, adapter, pairs);
    const samples = pairs.map((pair, i) => {
      const reference_logprobs = Float32Array.from(pair.tokens, (_, t) => scored[i]![t - 12] ?? 0);
      return { ...pair, reference_logprobs };
    });
    const dpo: LossRequest = { ...request, loss: "dpo" };
    const first = await step(engine, { adapter, samples, loss: dpo });
    near(first.loss, Math.log(2), 200 * engine.logprob_tolerance);
    ok(
      first.samples.every(({ score }) => Math.abs(score!) < 100 * engine.logprob_tolerance),
    );
    const second = await step(engine, { adapter, samples, loss: dpo });
    ok(second.loss < Math.log(2) - 0.01, `the loss falls, to ${second.loss}`);
    const margin = (i: number) => second.samples[i]!.score! - second.samples[i + 1]!.score!;
    ok(margin(0) > 0 && margin(2) > 0, "the chosen completions' scores are above the others'");
  });
  await withAdapter(engine, async (adapter) => {
    const means = (await score(engine, adapter, pairs)).map((row) =>
      row.reduce((a, b) => a + b, 0) / row.length
    );
    const pairLoss = (w: number, l: number) => Math.log1p(Math.exp(1 - 0.5 * (w - l)));
    const simpo: LossRequest = { ...request, loss: "simpo" };
    const { loss } = await step(engine, { adapter, samples: pairs, loss: simpo });
    const expected = (pairLoss(means[0]!, means[1]!) + pairLoss(means[2]!, means[3]!)) / 2;
    near(loss, expected, 20 * engine.logprob_tolerance);
    const refused = (loss: LossRequest, given = pairs) =>
      rejects(
        step(engine, { adapter, samples: given, loss }),
        (e: unknown) =>
          e instanceof ServiceError && e.code === "config_invalid" &&
          e.message.startsWith("Cannot train on pairs"),
      );
    await refused({ ...request, loss: "ipo" });
    await refused({ ...simpo, rejected: [true, false, false, true] });
    await refused({ ...simpo, rejected: rejected.slice(1) });
    await refused({ ...simpo, rejected: [false, false, false, true] });
    await refused(simpo, pairs.with(1, { ...pairs[1]!, loss_mask: new Uint8Array(21) }));
  });
}

export async function checkSharedPrefix(engine: TestedEngine): Promise<void> {
  const prefix = someTokens(20, 40);
  const tails = [someTokens(3, 6), someTokens(9, 11)];
  const make = (prefix_length: number) =>
    tails.map((tail, i) =>
      sample([...prefix, ...tail], 40, {
        prefix_length,
        trajectory: i,
        advantages: Float32Array.from([...prefix, ...tail], () => i ? -0.5 : 1),
      })
    );
  const policy = {
    type: "policy",
    clip_low: 0.2,
    clip_high: 0.28,
    kl_coefficient: 0,
    normalizer: 17,
  } as const;
  const loss = { ...policy, importance_sampling_level: "token" } as const;
  const results: TrainStepResult[] = [];
  for (const length of [0, 40]) {
    await withAdapter(engine, async (adapter) => {
      results.push(await step(engine, { adapter, samples: make(length), loss }));
    });
  }
  const [apart, shared] = results;
  // The last token of the prefix predicts the first of each sample, so an engine may run it once for each sample.
  // An engine may also leave out the last token, which predicts nothing.
  const counts = [40 + 6 + 11, 39 + 7 + 12, 39 + 6 + 11];
  ok(counts.includes(shared!.computed_tokens), "the prefix runs once");
  near(shared!.loss, apart!.loss, engine.logprob_tolerance);
  near(shared!.grad_norm / apart!.grad_norm, 1, 100 * engine.logprob_tolerance);
}

export async function checkCheckpoint(engine: TestedEngine): Promise<void> {
  const { client } = engine;
  const directory = await Deno.makeTempDir();
  const samples = [sample(someTokens(15, 16), 6)];
  const loss: LossRequest = { type: "sft", normalizer: 10 };
  try {
    await withAdapter(engine, async (adapter) => {
      await step(engine, { adapter, samples, loss });
      await client.call("checkpoint_save", { adapter, directory });
      const gone_on = [
        await step(engine, { adapter, samples, loss }),
        await step(engine, { adapter, samples, loss }),
      ];
      await client.call("adapter_close", { adapter });
      equal((await client.call("checkpoint_load", { adapter, directory })).version, 1);
      const again = [
        await step(engine, { adapter, samples, loss }),
        await step(engine, { adapter, samples, loss }),
      ];
      deepEqual(again, gone_on, "bit for bit");
      const sequence = await open(engine, [1, 2], { adapter });
      const loading = client.call("checkpoint_load", { adapter, directory });
      await rejects(loading, (e: unknown) => e instanceof ServiceError && e.code === "conflict");
      equal((await generate(engine, { sequence, max_tokens: 2 })).tokens.length, 2, "and it goes on");
      await close(engine, sequence);
    });
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}
