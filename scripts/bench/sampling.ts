/** Prefill and decode tokens per second through the engine's client. */

import type { EngineClient } from "../../trainer/protocol/client.ts";
import type { SamplingRequest } from "../../trainer/protocol/protocol.ts";
import { ADAPTER, counted, type EngineBench } from "./engine.ts";
import type { Peaks } from "./peaks.ts";
import { round } from "./report.ts";
import { randomTokens } from "./step_sizes.ts";
import { linearFlops } from "./train.ts";

const sampling = (rng_key: number): SamplingRequest => ({
  temperature: 1,
  top_p: 1,
  top_k: 0,
  rng_key: [1, rng_key],
  mask: null,
});

/** Runs of which the best counts. The first ones compile kernels, and this program's own code. */
const runsOf = (quick: boolean) => quick ? 2 : 8;

export async function benchPrefill(bench: EngineBench, peaks: Peaks): Promise<void> {
  for (const [sequences, tokens] of bench.sizes.prefills) {
    await timePrefill(bench, peaks, { sequences, tokens });
  }
}

export async function benchDecode(bench: EngineBench, peaks: Peaks): Promise<void> {
  for (const batch of bench.sizes.decode_batches) await timeDecode(bench, peaks, batch);
}

/** Opens sequences for `body`, `group` of them with the same tokens, and closes them. */
async function withSequences(
  { client, shape }: EngineBench,
  { sequences, tokens, group }: { sequences: number; tokens: number; group: number },
  body: (ids: number[]) => Promise<void>,
): Promise<void> {
  const ids = Array.from({ length: sequences }, () => client.newSequence());
  await Promise.all(ids.map((sequence, i) =>
    client.call("sequence_open", {
      sequence,
      adapter: ADAPTER,
      parent: null,
      tokens: randomTokens(Math.floor(i / group), tokens, shape.vocabulary),
    })
  ));
  await body(ids);
  await Promise.all(ids.map((sequence) => client.call("sequence_close", { sequence })));
}

/** Samples for all sequences at once. @returns The number of sampled tokens. */
async function sampleAll(client: EngineClient, ids: readonly number[], max_tokens: number): Promise<number> {
  const counts = await Promise.all(ids.map(async (sequence, i) => {
    let count = 0;
    for await (
      const { tokens } of client.generate({ sequence, max_tokens, stop_tokens: [], sampling: sampling(i) })
    ) count += tokens.length;
    return count;
  }));
  return counts.reduce((sum, count) => sum + count, 0);
}

/** The time to the first token, minus the time for a token from cached sequences. */
async function timePrefill(
  bench: EngineBench,
  peaks: Peaks,
  { sequences, tokens }: { sequences: number; tokens: number },
): Promise<void> {
  const { client, shape, report, quick, facts } = bench;
  let first = Infinity, next = Infinity;
  for (let i = 0; i < runsOf(quick); i++) {
    const start = performance.now();
    await withSequences(bench, { sequences, tokens, group: 1 }, async (ids) => {
      await sampleAll(client, ids, 1);
      const middle = performance.now();
      await sampleAll(client, ids, 1);
      first = Math.min(first, middle - start);
      next = Math.min(next, performance.now() - middle);
    });
  }
  const count = sequences * tokens, seconds = Math.max(first - next, 1e-3) / 1000;
  const gflops = count * linearFlops(shape) / seconds / 1e9;
  report.add({
    ...{ bench: "prefill", name: `${sequences} x ${tokens} tokens`, value: round(count / seconds) },
    ...{ unit: "tokens/s", sequences, tokens, compute: facts.compute, kv: facts.kv, gflops: round(gflops) },
    ...{ share_of_peak: round(gflops / peaks.gflops), model_shape: shape },
  });
}

/** Tokens per second of sequences with a prompt of their group. */
async function timeDecode(bench: EngineBench, peaks: Peaks, batch: number): Promise<void> {
  const { client, shape, report, sizes, facts, quick } = bench;
  const { decode_prompt: tokens, decode_group: group } = sizes;
  let rate = 0, counts: Awaited<ReturnType<typeof counted>> | null = null;
  for (let i = 0; i < runsOf(quick); i++) {
    await withSequences(bench, { sequences: batch, tokens, group }, async (ids) => {
      await sampleAll(client, ids, 1);
      counts = await counted(client, async () => {
        // Measured over the entire call: the engine shares this thread, so blocks arrive later than they end.
        const start = performance.now();
        const sampled = await sampleAll(client, ids, sizes.decode_tokens);
        rate = Math.max(rate, sampled / ((performance.now() - start) / 1000));
      });
    });
  }
  const { decode_steps, dispatches, readbacks, submits } = counts!;
  const gflops = rate * (linearFlops(shape) + 2 * shape.vocabulary * shape.width) / 1e9;
  report.add({
    ...{ bench: "decode", name: `${batch} sequences`, value: round(rate), unit: "tokens/s", batch, group },
    ...{ prompt: tokens, tokens: sizes.decode_tokens, compute: facts.compute, kv: facts.kv },
    ms_per_step: round(1000 * batch / rate),
    dispatches_per_step: round(dispatches / decode_steps),
    readbacks_per_step: round(readbacks / decode_steps),
    submits_per_step: round(submits / decode_steps),
    ...{ steps: decode_steps, gflops: round(gflops), share_of_peak: round(gflops / peaks.gflops) },
    model_shape: shape,
  });
}
