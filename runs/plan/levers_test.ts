import assert from "node:assert/strict";
import type { ResolvedConfig } from "../../config/check/derive.ts";
import type { MemoryPlan } from "../../trainer/engine/plan_memory.ts";
import { testConfig } from "../config_testing.ts";
import {
  applyLevers,
  exceededMemories,
  fitsBudget,
  fittingContext,
  MISSING_LEVERS,
  peakBytes,
} from "./levers.ts";

/** A device on which each row, sequence and cached number takes a known number of bytes. */
function measure({ training, agent, model }: ResolvedConfig): MemoryPlan {
  const kv = model.kv === "f16" ? "f16" : "f32", number_bytes = kv === "f16" ? 2 : 4;
  return {
    bytes: {
      weights: 1000,
      activations: (training.gradient_checkpointing ? 1 : 2) * training.micro_batch_tokens,
      loss: training.loss_chunk_rows,
      kv: number_bytes * agent!.concurrent_rollouts * 100 + training.ctx,
    },
    host: {},
    unbindable: [],
    compute: "f32",
    kv,
  };
}

/** 2 · 500 of activations, 256 of the loss, 4 · 8 · 100 + 256 of the cache: 5712 with the weights. */
function config(): ResolvedConfig {
  const { training, agent, ...rest } = testConfig("/nowhere");
  return {
    ...rest,
    training: { ...training, micro_batch_tokens: 500, loss_chunk_rows: 256 },
    agent: { ...agent!, concurrent_rollouts: 8 },
  };
}

/** So much on the device, and all that is needed in the machine. */
const onDevice = (vram_bytes: number) => ({ vram_bytes, ram_bytes: Infinity });

const applied = (vram_bytes: number) => applyLevers(config(), { budget: onDevice(vram_bytes), measure });

Deno.test("a configuration that fits stays unchanged", () => {
  assert.equal(peakBytes(measure(config())), 5712);
  assert.deepEqual(applied(5712).levers, []);
  assert.deepEqual(applied(5712).config, config());
});

Deno.test("levers are applied in the contract's order, each as far as it is needed", () => {
  const brief = (budget_bytes: number) =>
    applied(budget_bytes).levers.map(({ lever, saved_bytes, time_factor, setting }) =>
      [lever, saved_bytes, time_factor, setting.key, setting.value] as const
    );
  // A micro-batch holds at least one full-length sequence, 256 tokens.
  const micro_batch = ["micro_batch", 488, 1, "training.micro_batch_tokens", 256] as const;
  assert.deepEqual(brief(5711), [micro_batch]);
  assert.deepEqual(brief(5712 - 488), [micro_batch]);
  const checkpointing = [
    "gradient_checkpointing",
    256,
    1.5,
    "training.gradient_checkpointing",
    true,
  ] as const;
  assert.deepEqual(brief(5712 - 489), [micro_batch, checkpointing]);
  assert.deepEqual(brief(5712 - 744), [micro_batch, checkpointing]);
  const chunks = (rows: number) =>
    ["chunked_cross_entropy", 256 - rows, 1, "training.loss_chunk_rows", rows] as const;
  assert.deepEqual(brief(5712 - 745), [micro_batch, checkpointing, chunks(128)]);
  const halves = ["kv_f16", 1600, 1, "model.kv", "f16"] as const;
  assert.deepEqual(brief(4000), [micro_batch, checkpointing, chunks(64), halves]);
  const fewer = ["fewer_concurrent_rollouts", 1200, 4, "agent.concurrent_rollouts", 2] as const;
  assert.deepEqual(brief(2500 - 256), [micro_batch, checkpointing, chunks(64), halves, fewer]);
});

Deno.test("if nothing helps, all levers were tried, down to one rollout", () => {
  const { config: reached, plan } = applied(10);
  assert.equal(reached.agent!.concurrent_rollouts, 1);
  assert.equal(peakBytes(plan), 1000 + 256 + 64 + 200 + 256);
});

Deno.test("a lever whose part is not in this build is left out, by its name", () => {
  assert.deepEqual(MISSING_LEVERS.map(({ lever }) => lever), ["offload_optimizer"]);
});

Deno.test("a tensor that the device cannot bind does not fit whatever the budget", () => {
  const unbindable = [{ name: "kv", component: "kv", size_bytes: 9, limit_bytes: 8 }];
  const bound = (config: ResolvedConfig) => {
    const plan = measure(config);
    return plan.bytes.kv! > 2000 ? { ...plan, unbindable } : plan;
  };
  const { levers } = applyLevers(config(), { budget: onDevice(Infinity), measure: bound });
  assert.deepEqual(levers.map(({ lever }) => lever), [
    ...["micro_batch", "gradient_checkpointing", "chunked_cross_entropy", "kv_f16"],
  ]);
});

Deno.test("a shorter context is the longest half that fits, with what depends on it", () => {
  const long = config();
  long.training = { ...long.training, ctx: 4096, micro_batch_tokens: 4096 };
  long.agent = { ...long.agent!, max_trajectory_tokens: 4096 };
  const seen: number[][] = [];
  const watched = (config: ResolvedConfig) => {
    seen.push([config.training.ctx, config.training.micro_batch_tokens, config.agent!.max_trajectory_tokens]);
    return measure(config);
  };
  // 1000 + 2 · ctx + 256 + 3200 + ctx
  const fitting = (vram_bytes: number) =>
    fittingContext(long, { budget: onDevice(vram_bytes), measure: watched });
  const { training } = fitting(4456 + 3 * 1024)!;
  assert.deepEqual([training.ctx, training.micro_batch_tokens], [1024, 1024]);
  assert.deepEqual(seen, [[2048, 2048, 2048], [1024, 1024, 1024]]);
  assert.equal(fitting(4456 + 3 * 1024 - 1)!.training.ctx, 512);
  assert.equal(fitting(4456), null);
});

Deno.test("the machine's memory is compared as well, also where the device's is unknown", () => {
  const plan = { ...measure(config()), bytes: { weights: 10, kv: 5 }, host: { weights: 10, kv: 5, copy: 3 } };
  const exceeded = (vram_bytes: number | null, ram_bytes: number) =>
    exceededMemories(plan, { vram_bytes, ram_bytes }).map(({ of, peak_bytes, budget_bytes }) =>
      `${of} ${peak_bytes} of ${budget_bytes}`
    );
  assert.deepEqual(exceeded(15, 18), []);
  assert.deepEqual(exceeded(null, 17), ["machine 18 of 17"]);
  assert.deepEqual(exceeded(14, 18), ["device 15 of 14"]);
  assert.deepEqual(exceeded(10, 16), ["device 15 of 10", "machine 18 of 16"]);
  assert.deepEqual(exceeded(14, 10), ["machine 18 of 10", "device 15 of 14"]);
  assert.deepEqual([18, 17].map((ram_bytes) => fitsBudget(plan, { vram_bytes: null, ram_bytes })), [
    true,
    false,
  ]);
});

Deno.test("levers are applied for the memory of a machine that is its own device", () => {
  const inMachine = (config: ResolvedConfig) => {
    const plan = measure(config);
    return { ...plan, host: { ...plan.bytes, host_checkpoint: 100 } };
  };
  const { levers } = applyLevers(config(), {
    budget: { vram_bytes: null, ram_bytes: 5711 + 100 },
    measure: inMachine,
  });
  assert.deepEqual(levers.map(({ lever, saved_bytes }) => [lever, saved_bytes]), [["micro_batch", 488]]);
});
