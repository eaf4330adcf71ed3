/** Training tokens per second through the engine's client, and the gain from sharing a group's prompt. */

import { LORA_TARGETS } from "../../core/lora_targets.ts";
import type { LossRequest, TrainingSample, TrainStepResult } from "../../trainer/protocol/protocol.ts";
import { linearShape, type ModelShape } from "../../trainer/model/model_shape.ts";
import { ADAPTER, counted, type EngineBench } from "./engine.ts";
import type { Peaks } from "./peaks.ts";
import { round } from "./report.ts";
import { groupSamples, LORA, OPTIMIZER, sftSamples, type StepSizes } from "./step_sizes.ts";
import { median } from "./timing.ts";

/** Forward multiplications and additions of the frozen linear layers for a token. */
export function linearFlops(shape: ModelShape): number {
  const products = LORA_TARGETS.map((target) => {
    const { out_width, in_width } = linearShape(shape, target);
    return out_width * in_width;
  });
  return 2 * shape.layers.length * products.reduce((sum, product) => sum + product, 0);
}

/** For a step: forward and input gradients, for all computed tokens in the layers and all trained ones in the head. */
function stepFlops(shape: ModelShape, { computed_tokens, trained_tokens }: TrainStepResult): number {
  return 2 * (computed_tokens * linearFlops(shape) + trained_tokens * 2 * shape.vocabulary * shape.width);
}

/** A timed kind of step. */
interface Timed {
  name: string;
  /** The number and length of sequences. */
  batch: Record<string, number>;
  samples: TrainingSample[];
  loss: LossRequest;
  seconds: number[];
  result: TrainStepResult | null;
}

const policyLoss = (normalizer: number): LossRequest => ({
  type: "policy",
  importance_sampling_level: "token",
  clip_low: 0.2,
  clip_high: 0.28,
  kl_coefficient: 0,
  normalizer,
});

const kind = (given: Pick<Timed, "name" | "batch" | "samples" | "loss">): Timed => (
  { ...given, seconds: [], result: null }
);

function supervised({ sft: { sequences, tokens } }: StepSizes, shape: ModelShape): Timed {
  const loss = { type: "sft", normalizer: sequences * tokens / 2 } as const;
  return kind({
    name: `sft, ${sequences} x ${tokens} packed`,
    batch: { sequences, sequence_tokens: tokens },
    samples: sftSamples({ sequences, tokens }, shape.vocabulary),
    loss,
  });
}

/** A packed SFT step, then GRPO steps with and without a shared prompt in turn. */
export async function benchTrain(bench: EngineBench, peaks: Peaks): Promise<void> {
  const { sizes, shape, quick } = bench, { members, prompt, completion } = sizes.group;
  const grpo = `grpo, ${members} members of ${prompt} + ${completion}`,
    loss = policyLoss(members * completion);
  const group = (what: string, is_shared: boolean) =>
    kind({
      name: `${grpo}, ${what}`,
      batch: { members, prompt, completion },
      samples: groupSamples(sizes.group, shape.vocabulary, { shared: is_shared }),
      loss,
    });
  const shared = group("prompt shared", true), apart = group("nothing shared", false);
  const kinds = [supervised(sizes, shape), shared, apart];
  for (const each of kinds) await step(bench, each);
  for (const each of kinds) each.seconds = [];
  for (let i = 0; i < (quick ? 1 : 4); i++) for (const each of kinds) await step(bench, each);
  for (const each of kinds) await addLine(bench, each, peaks);
  const ratios = shared.seconds.map((seconds, i) => apart.seconds[i]! / seconds);
  bench.report.add({
    ...{
      bench: "train",
      name: `${grpo}: what sharing is worth`,
      value: round(median(ratios)),
      unit: "times",
    },
    pairs: ratios.map(round),
  });
}

async function step({ client }: EngineBench, timed: Timed): Promise<void> {
  const { samples, loss } = timed, start = performance.now();
  timed.result = await client.call("train_step", { adapter: ADAPTER, samples, loss, optimizer: OPTIMIZER });
  timed.seconds.push((performance.now() - start) / 1000);
}

async function addLine(bench: EngineBench, timed: Timed, peaks: Peaks): Promise<void> {
  const { client, shape, report, facts, sizes } = bench, { name, samples, batch } = timed;
  const seconds = Math.min(...timed.seconds);
  const { dispatches, submits, readbacks } = await counted(client, () => step(bench, timed));
  const { computed_tokens, trained_tokens, micro_batches } = timed.result!;
  const tokens = samples.reduce((sum, sample) => sum + sample.tokens.length, 0);
  const gflops = stepFlops(shape, timed.result!) / seconds / 1e9;
  report.add({
    ...{
      bench: "train",
      name,
      value: round(tokens / seconds),
      unit: "tokens/s",
      tokens,
      ...batch,
      computed_tokens,
    },
    ...{ trained_tokens, micro_batches, micro_batch_tokens: sizes.micro_batch_tokens, rank: LORA.rank },
    ...{ ms_per_step: round(1000 * seconds), dispatches_per_step: dispatches, submits_per_step: submits },
    ...{ readbacks_per_step: readbacks, compute: facts.compute, model_shape: shape },
    ...{ gflops: round(gflops), share_of_peak: round(gflops / peaks.gflops) },
  });
}

/** Bytes on the device by component when they were the most at once, after a step has made its buffers. */
export async function benchBytes(bench: EngineBench): Promise<void> {
  const { client, report, sizes, shape } = bench;
  await step(bench, supervised(sizes, shape));
  const { peak_bytes } = await client.call("counters", null);
  const { micro_batch_tokens, loss_chunk_rows, decode_batches } = sizes;
  const at = { micro_batch_tokens, loss_chunk_rows, max_sequences: Math.max(...decode_batches) };
  for (const [component, value] of Object.entries(peak_bytes)) {
    if (value === 0) continue;
    report.add({ bench: "bytes", name: component, value, unit: "bytes", ...at });
  }
}
