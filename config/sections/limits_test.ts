import assert from "node:assert/strict";
import { describeKeys } from "../describe.ts";
import { LIMITS } from "./limits.ts";
import { runConfigSchema } from "../schema.ts";

/** Key, a value just below the range, the lowest, the highest, a value just above. */
const BOUNDS: [string, number, number, number, number][] = [
  ["run.seed", -1, 0, 9007199254740991, 9007199254740992],
  ["lora.rank", 0, 1, 1024, 1025],
  ["lora.alpha", 0, 1e-9, 65536, 65536.5],
  ["lora.dropout", -1e-9, 0, 0.999999, 1],
  ["lora.seed", -1, 0, 9007199254740991, 9007199254740992],
  ["preference.beta", 0, 1e-9, 100, 100.5],
  ["preference.gamma", -1e-9, 0, 100, 100.5],
  ["preference.lambda", -1e-9, 0, 100, 100.5],
  ["training.ctx", 15, 16, 1048576, 1048577],
  ["training.lr", 0, 1e-12, 1, 1.001],
  ["training.epochs", 0, 1, 100000, 100001],
  ["training.updates", 0, 1, 10000000, 10000001],
  ["training.max_minutes", 0, 0.01, 525600, 525601],
  ["training.batch_tokens", 15, 16, 67108864, 67108865],
  ["training.micro_batch_tokens", 15, 16, 4194304, 4194305],
  ["training.loss_chunk_rows", 0, 1, 65536, 65537],
  ["training.warmup_steps", -1, 0, 10000000, 10000001],
  ["training.weight_decay", -1e-9, 0, 10, 10.5],
  ["training.beta1", -1e-9, 0, 0.999999, 1],
  ["training.beta2", -1e-9, 0, 0.999999, 1],
  ["training.eps", 0, 1e-30, 1, 1.5],
  ["training.max_grad_norm", -1e-9, 0, 1000000, 1000001],
  ["training.max_gpu_duty_cycle", 0, 1e-9, 1, 1.001],
  ["agent.updates", 0, 1, 10000000, 10000001],
  ["agent.scenarios_per_update", 0, 1, 65536, 65537],
  ["agent.group_size", 1, 2, 1024, 1025],
  ["agent.epochs_per_update", 0, 1, 100, 101],
  ["agent.optimizer_steps_per_update", 0, 1, 65536, 65537],
  ["agent.sampler_correction_cap", 0.999, 1, 1000, 1001],
  ["agent.max_turns", 0, 1, 10000, 10001],
  ["agent.max_new_tokens_per_turn", 0, 1, 1048576, 1048577],
  ["agent.max_rollout_secs", -0.001, 0, 604800, 604801],
  ["agent.max_trajectory_tokens", 15, 16, 1048576, 1048577],
  ["agent.max_dropped_fraction", -1e-9, 0, 1, 1.001],
  ["agent.max_failed_turns", -1, 0, 10000, 10001],
  ["agent.clip_low", 0, 1e-9, 1, 1.001],
  ["agent.clip_high", 0, 1e-9, 100, 100.5],
  ["agent.kl_coefficient", -1e-9, 0, 100, 100.5],
  ["agent.max_update_kl", -1e-9, 0, 100, 100.5],
  ["agent.overlong_penalty", -1e-9, 0, 1000, 1001],
  ["agent.dynamic_sampling.max_resample_factor", 0.999, 1, 100, 100.5],
  ["agent.temperature", -1e-9, 0, 100, 100.5],
  ["agent.concurrent_rollouts", 0, 1, 4096, 4097],
  ["agent.reward.timeout_secs", 0, 0.001, 3600, 3601],
  ["agent.judge.max_chars", 999, 1000, 100000000, 100000001],
  ["agent.judge.timeout_secs", 0, 0.001, 3600, 3601],
  ["agent.judge.max_retries", -1, 0, 20, 21],
  ["agent.environment.limits.cpus", 0, 1e-9, 1024, 1024.5],
  ["agent.environment.limits.memory_mb", 15, 16, 1048576, 1048577],
  ["agent.environment.limits.exec_timeout_secs", 0, 1, 86400, 86401],
  ["agent.environment.pool.max_live", 0, 1, 4096, 4097],
  ["agent.scenario_generation.count", 0, 1, 100000, 100001],
  ["evaluation.every_updates", 0, 1, 10000000, 10000001],
  ["evaluation.max_examples", 0, 1, 10000000, 10000001],
  ["evaluation.samples_per_scenario", 0, 1, 1024, 1025],
  ["evaluation.temperature", -1e-9, 0, 100, 100.5],
  ["evaluation.seed", -1, 0, 9007199254740991, 9007199254740992],
  ["evaluation.patience", 0, 1, 1000000, 1000001],
  ["evaluation.min_delta", -1e-9, 0, 1000000, 1000001],
  ["checkpoint.every_updates", 0, 1, 10000000, 10000001],
  ["checkpoint.keep", 0, 1, 10000, 10001],
  ["observe.every", 0, 1, 10000000, 10000001],
  ["observe.max_text_chars", -1, 0, 1000000000, 1000000001],
];

/** The schema's messages about one number in an otherwise empty configuration. */
function refusals(key: string, value: number): string[] {
  const tree = key.split(".").reduceRight<unknown>((inner, part) => ({ [part]: inner }), value);
  const issues = (runConfigSchema.safeParse(tree).error?.issues ?? []).flatMap((issue) =>
    issue.code !== "invalid_union"
      ? [issue]
      : issue.errors.flat().map((inner) => ({ ...inner, path: [...issue.path, ...inner.path] }))
  );
  return [...new Set(issues.filter(({ path }) => path.join(".") === key).map((issue) => issue.code))];
}

Deno.test("every numeric key has its bounds in this table, and no other key has", () => {
  const numeric = describeKeys().filter(({ type }) => /^(integer|number), (above |\d)/.test(type)).map((
    { key },
  ) => key);
  assert.deepEqual(BOUNDS.map(([key]) => key).toSorted(), numeric.toSorted());
  assert.deepEqual(Object.keys(LIMITS).toSorted(), numeric.toSorted());
});

Deno.test("numbers are accepted up to their bounds and refused beyond them", () => {
  for (const [key, below, lowest, highest, above] of BOUNDS) {
    assert.deepEqual(refusals(key, below), ["too_small"], `${key} = ${below}`);
    assert.deepEqual(refusals(key, lowest), [], `${key} = ${lowest}`);
    assert.deepEqual(refusals(key, highest), [], `${key} = ${highest}`);
    assert.deepEqual(refusals(key, above), ["too_big"], `${key} = ${above}`);
  }
});
