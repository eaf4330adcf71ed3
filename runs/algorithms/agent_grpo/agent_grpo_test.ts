import assert from "node:assert/strict";
import { testMember } from "../../../agent/rollout/group_testing.ts";
import type { Group } from "../../../agent/trajectory/group.ts";
import { actionTokens } from "../../../agent/trajectory/trajectory.ts";
import type { LossRequest, TrainingSample } from "../../../trainer/protocol/protocol.ts";
import { ScriptedEngine } from "../../../trainer/engine/scripted_engine_fake.ts";
import { name, testGrpo, type TestGrpoOptions } from "../../agent_grpo_testing.ts";
import { skipSteps } from "../../run_fake.ts";
import { atMask } from "../step_metrics.ts";
import { REFERENCE } from "./agent_grpo.ts";

const grpo = (
  change: NonNullable<TestGrpoOptions["change"]> = {},
  verify?: TestGrpoOptions["verify"],
  rolled_out: (groups: Group[]) => void = () => {},
) => testGrpo({ newEngine: (refuse) => new ScriptedEngine({ refuse }).client, change, verify, rolled_out });

/** A reward that differs for different texts. */
const unlike = (_: string, said: string[]) =>
  Array.from(said.join(""), (char) => char.charCodeAt(0)).reduce((sum, code) => (31 * sum + code) % 9973, 7);

/** Both lists are equal within a tolerance, and not empty. */
function equalLists(actual: ArrayLike<number>, expected: ArrayLike<number>, tolerance: number): void {
  assert.ok(expected.length > 0 && actual.length === expected.length);
  Array.from(expected).forEach((value, i) =>
    assert.ok(Math.abs(actual[i]! - value) <= tolerance, `${i}: ${actual[i]} is not ${value}`)
  );
}

Deno.test("one step: every ratio is 1, the loss is divided once by trajectories times token budget", async () => {
  const { run, trained, scored, config, observed } = await grpo({ max_turns: 3 });
  const result = await run(1);
  const [request] = trained();
  assert.equal(trained().length, 1);
  assert.equal(scored().length, 0);
  assert.ok(
    request!.samples.every((sample) => sample.old_logprobs === null && sample.reference_logprobs === null),
  );
  const kept = observed[0]!.groups.flatMap(({ members }) => members).filter(({ status }) =>
    status === "kept"
  );
  const budget = Math.min(3 * config.agent!.max_new_tokens_per_turn, config.agent!.max_trajectory_tokens);
  assert.deepEqual(request!.loss, {
    type: "policy",
    importance_sampling_level: "token",
    clip_low: 0.2,
    clip_high: 0.28,
    kl_coefficient: 0,
    normalizer: kept.length * budget,
  });
  assert.equal(request!.optimizer.learning_rate, 0.1);
  // All sampled tokens, and all rows of the step: a group's prompt counts once.
  const prompts = new Map(request!.samples.map((sample) => [sample.prefix_group, sample.prefix_length]));
  const rows = request!.samples.map(({ tokens, prefix_length }) => tokens.length - prefix_length);
  const sampled = observed[0]!.groups.flatMap(({ members }) => members.map(actionTokens));
  assert.equal(result.tokens, [...prompts.values(), ...rows, ...sampled].reduce((a, b) => a + b));
  assert.equal(result.examples_seen, 2);
  assert.deepEqual(result.steps.map(({ step }) => step), [1]);
  const values = result.steps[0]!.values;
  assert.equal(values["ratio/mean"], 1);
  assert.equal(values["ratio/clipped_fraction_low"], 0);
  assert.ok(Math.abs(result.values["kl/sample_train_max"]!) < 1e-6);
  assert.ok(kept.some(({ fragments }) => fragments[0]!.sampled.ratios[0] === 1));
});

Deno.test("exported groups have all metrics of the update", async () => {
  const { run, observed } = await grpo({});
  const { steps, values } = await run(1);
  for (const name of ["kl/sample_train_v1", "time/train_seconds", "memory/device_bytes", "loss/policy"]) {
    assert.ok(name in observed[0]!.metrics, name);
  }
  assert.deepEqual(observed[0]!.metrics, { ...steps.at(-1)!.values, ...values });
});

Deno.test("a scenario is an update's group, and history counts its passes", async () => {
  const { run, observed } = await grpo({}, (_, said) => said.join("").length % 2);
  const result = await run(1);
  const { groups } = observed[0]!;
  assert.deepEqual(result.groups.map(({ scenario }) => scenario), groups.map(({ scenario }) => scenario));
  for (const { scenario, members } of groups) {
    const passes = members.filter(({ total_reward }) => total_reward === 1).length;
    assert.deepEqual(result.history[scenario], { update: 1, attempts: 4, passes, failed: 0 });
  }
  const rewards = groups.flatMap(({ members }) => members.map(({ total_reward }) => total_reward!));
  assert.equal(result.reward_mean, rewards.reduce((a, b) => a + b, 0) / rewards.length);
  assert.equal(result.values["reward/mean"], result.reward_mean);
});

Deno.test("under min_reward a truncated attempt has not passed, whatever the others earned", async () => {
  const { run, observed } = await grpo({ truncation: "min_reward", max_new_tokens_per_turn: 4 }, () => 1);
  const { history, reward_mean, values } = await run(1);
  const members = observed[0]!.groups.flatMap((group) => group.members);
  const ended = members.filter(({ stop_reason }) => stop_reason === "submitted").length;
  assert.ok(0 < ended && ended < members.length);
  assert.equal(Object.values(history).reduce((sum, { passes }) => sum + passes, 0), ended);
  assert.equal(reward_mean, ended / members.length);
  assert.equal(values["reward/mean"], reward_mean);
});

for (const truncation of ["drop", "min_reward"] as const) {
  Deno.test(`the rewards of an update's groups are what was earned, so reward_mean is their mean, under ${truncation}`, async () => {
    const { run, observed } = await grpo(
      { truncation, max_new_tokens_per_turn: 6, max_dropped_fraction: 1 },
      (scenario, said) => 1 + unlike(scenario, said),
      (groups) => void (groups[0]!.members[0] = testMember(0, { stop_reason: "environment_failed" })),
    );
    const { groups, reward_mean } = await run(1);
    const members = observed[0]!.groups.flatMap((group) => group.members);
    const rewards = groups.flatMap((group) => group.rewards);
    assert.equal(rewards[0], null, "it broke");
    const limited = members.flatMap(({ stop_reason }, i) => stop_reason === "max_turn_tokens" ? [i] : []);
    assert.ok(0 < limited.length && limited.length < members.length - 1);
    assert.ok(limited.every((i) => rewards[i] === 0), "one that hit a limit is not graded");
    assert.ok(
      members.some(({ total_reward }, i) => total_reward !== rewards[i]),
      "some are compared by another",
    );
    const sum = rewards.reduce((total: number, reward) => total + (reward ?? 0), 0);
    assert.equal(reward_mean, sum / members.length);
  });
}

Deno.test("several steps: a group's members share a step, are rescored before the first one, and are learned once an epoch", async () => {
  const { run, trained, scored, order, observed } = await grpo({
    scenarios_per_update: 4,
    optimizer_steps_per_update: 2,
    epochs_per_update: 2,
  }, unlike);
  const result = await run(1);
  assert.deepEqual(order(), ["score", "train_step", "train_step", "train_step", "train_step"]);
  assert.equal(scored()[0]!.adapter, "policy");
  assert.deepEqual(trained().map(({ optimizer }) => optimizer.learning_rate), [0.1, 0.2, 0.1 * 3, 0.4]);
  const everything = scored()[0]!.samples.map(name).toSorted();
  const [a, b, c, d] = trained().map(({ samples }) => samples.map(name));
  assert.deepEqual([...a!, ...b!].toSorted(), everything);
  assert.deepEqual([...c!, ...d!].toSorted(), everything);
  for (const { samples, loss } of trained()) {
    const groups = new Set(samples.map(({ prefix_group }) => prefix_group));
    const kept = observed[0]!.groups.filter(({ group }) => groups.has(group))
      .flatMap(({ members }) => members).filter(({ status }) => status === "kept");
    assert.equal(loss.normalizer, kept.length * 256);
  }
  assert.deepEqual(result.steps.map(({ step }) => step), [1, 2, 3, 4]);
  assert.equal(result.loss, result.steps[3]!.values["loss/policy"]);
  const off = (step: number) => Math.abs(result.steps[step]!.values["ratio/mean"]! - 1);
  assert.ok(off(0) < 1e-6 && off(2) > 1e-3);
  // Every trained token has old log-probabilities of the policy that sampled it, also in the second part.
  const fragments = observed[0]!.groups.flatMap(({ members }) =>
    members.map(({ fragments }) => fragments[0]!)
  );
  const learned = fragments.map(({ sampled }) => sampled).filter(({ trained }) => trained.every((is) => is));
  assert.equal(learned.length, everything.length);
  for (const { trainer_logprobs, sampler_logprobs } of learned) {
    equalLists(trainer_logprobs as number[], sampler_logprobs, 1e-6);
  }
  assert.ok(result.values["kl/sample_train_max"]! < 1e-6);
});

Deno.test("the loss is the configured one", async () => {
  const clip = { clip_low: 3e-4, clip_high: 4e-4 };
  const settings = { importance_sampling_level: "sequence" as const, ...clip, kl_coefficient: 0.05 };
  const { run, trained, config } = await grpo(settings);
  await run(1);
  const { type, normalizer, ...rest } = trained()[0]!.loss as Extract<LossRequest, { type: "policy" }>;
  assert.deepEqual([type, rest], ["policy", settings]);
  assert.equal(normalizer, 2 * 4 * config.agent!.max_trajectory_tokens);
});

Deno.test("an update's groups are in the order of the file, whatever the draw", async () => {
  const draws: string[] = [];
  const { run, observed } = await grpo({ scenarios_per_update: 3 });
  for (let update = 1; update <= 5; update++) {
    await run(update);
    const lines = observed.at(-1)!.groups.map(({ line }) => line);
    assert.deepEqual(lines, lines.toSorted());
    draws.push(lines.join());
  }
  assert.ok(new Set(draws).size > 1);
});

Deno.test("one attempt that is not deterministic makes the update not deterministic", async () => {
  assert.ok((await (await grpo()).run(1)).deterministic);
  const broken = await grpo({}, undefined, ([group]) => group!.members[1]!.deterministic = false);
  assert.ok(!(await broken.run(1)).deterministic);
});

/** The sampler's log-probabilities of a sample's trained tokens. */
function sampledOf(groups: readonly Group[], sample: TrainingSample): number[] {
  const group = groups.find(({ group }) => group === sample.prefix_group)!;
  const { tokens, sampled } = group.members.map(({ fragments }) => fragments[0]!)
    .find(({ tokens }) => tokens.join(" ") === name(sample))!;
  equalLists(tokens, sample.tokens, 0);
  return sampled.sampler_logprobs;
}

for (const [what, change] of [["alone", {}], ["beside a KL term", { kl_coefficient: 0.1 }]] as const) {
  Deno.test(`old log-probabilities are those of the policy that sampled, at every step, ${what}`, async () => {
    const { run, trained, observed } = await grpo({
      ...{ scenarios_per_update: 4, optimizer_steps_per_update: 2, epochs_per_update: 2 },
      ...change,
    });
    // After the first update policy and reference differ, so the test can tell them apart.
    await run(1);
    const first = trained().length;
    await run(2);
    const requests = trained().slice(first);
    assert.equal(requests.length, 4);
    for (const { samples } of requests) {
      for (const sample of samples) {
        equalLists(
          atMask(sample, sample.old_logprobs!),
          sampledOf(observed.at(-1)!.groups, sample),
          1e-6,
        );
      }
    }
  });
}

Deno.test("reference log-probabilities are the base model's, at every step of every epoch", async () => {
  const { run, trained, engine } = await grpo({
    ...{ scenarios_per_update: 4, optimizer_steps_per_update: 2, epochs_per_update: 2 },
    kl_coefficient: 0.1,
  });
  await run(1);
  await run(2);
  const requests = trained().slice();
  assert.equal(requests.length, 8);
  for (const { samples } of requests) {
    const { logprobs } = await engine.call("score", { adapter: null, samples });
    samples.forEach((sample, i) => equalLists(atMask(sample, sample.reference_logprobs!), logprobs[i]!, 0));
  }
  const last = requests.at(-1)!.samples[0]!;
  assert.ok(
    atMask(last, last.old_logprobs!).some((old, k) =>
      Math.abs(old - atMask(last, last.reference_logprobs!)[k]!) > 1e-3
    ),
    "the policy has left its reference",
  );
});

for (const epochs_per_update of [1, 2]) {
  Deno.test(`old_logprobs = "sampler" takes them from the sampler, without an additional pass: ${epochs_per_update} steps`, async () => {
    const { run, trained, order, observed } = await grpo({ old_logprobs: "sampler", epochs_per_update });
    const { steps } = await run(1);
    assert.equal(order()[0], "train_step");
    assert.equal(trained().length, epochs_per_update);
    for (const { samples } of trained()) {
      assert.ok(samples.length > 0);
      for (const sample of samples) {
        const sampled = Float32Array.from(sampledOf(observed[0]!.groups, sample));
        assert.ok(sampled.every((logprob) => logprob < 0));
        equalLists(atMask(sample, sample.old_logprobs!), sampled, 0);
      }
    }
    assert.ok(Math.abs(steps[0]!.values["ratio/mean"]! - 1) < 1e-6, "no step has moved the policy yet");
  });
}

Deno.test("every key of the optimiser reaches the engine", async () => {
  const { run, trained, config } = await grpo();
  const keys = { beta1: 0.81, beta2: 0.93, eps: 3e-7, weight_decay: 0.02, max_grad_norm: 0.7 };
  Object.assign(config.training, keys);
  await run(1);
  assert.deepEqual(trained()[0]!.optimizer, { learning_rate: 0.1, ...keys });
});

Deno.test("the KL term's reference is the base model, or the initial adapter", async () => {
  const base = await grpo({ kl_coefficient: 0.1 });
  const first = await base.run(1);
  assert.equal(base.scored()[0]!.adapter, null);
  assert.ok(Math.abs(first.steps[0]!.values["kl/reference"]!) < 1e-9);
  const second = await base.run(2);
  assert.ok(second.steps[0]!.values["kl/reference"]! > 1e-6);
  const init = await grpo({ kl_coefficient: 0.1, kl_reference: "init_adapter" });
  await init.engine.call("adapter_open", { adapter: REFERENCE, source: { type: "copy", adapter: "policy" } });
  await init.run(1);
  assert.equal(init.scored()[0]!.adapter, REFERENCE);
});

Deno.test("an update moves no further than max_update_kl, measured on its own samples", async () => {
  const free = await grpo({ max_update_kl: 100 });
  const whole = (await free.run(1)).values;
  assert.deepEqual([whole["optimizer/step_scale"], whole["kl/update"]], [1, whole["kl/update_whole"]]);
  const max_update_kl = whole["kl/update"]! / 10;
  const { run, engine, trained, diverged } = await grpo({ max_update_kl });
  const { values } = await run(1);
  assert.ok(values["optimizer/step_scale"]! < 1 && values["kl/update_whole"] === whole["kl/update_whole"]);
  assert.ok(values["kl/update"]! <= max_update_kl && values["kl/update"]! > max_update_kl / 4);
  assert.deepEqual(diverged()[0]!.samples.map(name), trained()[0]!.samples.map(name));
  // The next update starts from the shortened policy. Before this update the policy was the base model.
  const { divergences } = await engine.call("divergence", { ...diverged()[0]!, from: null });
  const all = divergences.flatMap((row) => [...row]);
  const mean = all.reduce((sum, kl) => sum + kl, 0) / all.length;
  assert.ok(Math.abs(mean - values["kl/update"]!) < 1e-9, `${mean} is not ${values["kl/update"]}`);
});

Deno.test("the bound counts all steps of an update from where the first of them began", async () => {
  const several = { scenarios_per_update: 4, optimizer_steps_per_update: 2, max_update_kl: 1e-9 };
  const { run, order } = await grpo(several, unlike);
  const { values } = await run(1);
  assert.match(order().join(), /train_step,train_step,divergence/);
  assert.ok(values["kl/update"]! <= 1e-9 && values["kl/update_whole"]! > 1e-4);
});

Deno.test("a degenerate update takes no step, except towards the reference", async () => {
  const { run, trained, observed } = await grpo({}, () => 1);
  const result = await run(1);
  assert.equal(trained().length, 0);
  assert.deepEqual([result.steps, result.loss, result.reward_mean, result.examples_seen], [[], null, 1, 2]);
  assert.ok(observed[0]!.groups.every(({ status }) => status === "degenerate"));
  assert.equal(result.values["group/degenerate_fraction"], 1);
  const pulled = await grpo({ kl_coefficient: 0.1 }, () => 1);
  await pulled.run(1);
  assert.equal(pulled.trained().length, 1);
});

Deno.test("an update that loses too many attempts fails, and can still be inspected", async () => {
  const { run, trained, observed } = await grpo({ max_new_tokens_per_turn: 1 });
  await assert.rejects(run(1), { code: "max_dropped_fraction" });
  assert.equal(trained().length, 0);
  assert.deepEqual(observed.map(({ update }) => update), [1]);
});

Deno.test("an update is a function of its number and of the examples seen before", async () => {
  const [once, again] = [await grpo(), await grpo()];
  const tokens = ({ observed }: typeof once) =>
    observed.at(-1)!.groups.map(({ members }) => members.map(({ fragments }) => fragments));
  await once.run(1);
  await again.run(1);
  assert.deepEqual(tokens(once), tokens(again));
  await once.run(2);
  assert.notDeepEqual(tokens(once), tokens(again));
});

Deno.test("samples depend on the run's seed and on the update", async () => {
  const rng_keys: string[][] = [];
  for (const [seed, update] of [[7, 1], [7, 1], [8, 1], [7, 2]] as const) {
    // All scenarios are used, whatever the seed and the update.
    const { run, generated, config } = await grpo({ scenarios_per_update: 5 });
    config.run.seed = seed;
    await run(update);
    rng_keys.push(generated().map(({ sampling }) => sampling.rng_key.join()).toSorted());
  }
  const [once, again, other_seed, other_update] = rng_keys;
  assert.equal(once!.length, 5 * 4);
  assert.deepEqual(again, once);
  for (const other of [other_seed!, other_update!]) {
    assert.deepEqual(other.filter((key) => once!.includes(key)), []);
  }
});

Deno.test("a skipped step ends the update", async () => {
  const { run, engine } = await grpo();
  skipSteps(engine);
  await assert.rejects(run(1), { code: "loss_not_finite" });
});

Deno.test("every epoch of every update divides its groups differently", async () => {
  const { run, trained } = await grpo({
    scenarios_per_update: 4,
    optimizer_steps_per_update: 2,
    epochs_per_update: 6,
  }, unlike);
  await run(1);
  const splits = () =>
    trained().map(({ samples }) => [...new Set(samples.map(({ prefix_group }) => prefix_group))].join()).join(
      " ",
    );
  const first = splits();
  assert.ok(new Set(first.split(" ")).size > 2);
  await run(2, 0);
  assert.notEqual(splits().slice(first.length + 1), first);
});
