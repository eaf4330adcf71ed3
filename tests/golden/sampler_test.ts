import { deepEqual, equal, ok } from "node:assert/strict";
import { openGpu } from "../../kernels/device.ts";
import { gpuTest, lacksF16 } from "../../kernels/gpu_testing.ts";
import { generate, type Generated, type TestedEngine } from "../../trainer/engine/engine_testing.ts";
import type { EngineCounters } from "../../trainer/protocol/protocol.ts";
import { fixturePath } from "../fixture.ts";
import { GOLDEN_ADAPTER, type Kind, openAsGpu, openEngine, readGolden, sample } from "./golden.ts";

const { prompts, eos } = await readGolden();
/** Tokens that represent a tool's result with the frame around it, between the model's turns. */
const RESULT = prompts[4]!.ids.slice(-24);
/**
 * Prompts with different first tokens: sequences that start alike share pages, which are computed once for all of them.
 */
const APART = [0, 1, 3, 8];

/** Of a conversation: its turns, and the most tokens of the prompt, of each turn and of each result. */
interface Lengths {
  turns: number;
  prompt: number;
  turn: number;
  result: number;
}

const LONG: Lengths = { turns: 3, prompt: Infinity, turn: 20, result: 24 };
/** On a software adapter the forms of GPUs are slow. */
const SHORT: Lengths = { turns: 2, prompt: 24, turn: 8, result: 5 };

/** Bounds of |sampled − scored| by the type of operands and cache. In f32 both have the same bits. */
const BOUND = { f32: { most: 0, mean: 0 }, f16: { most: 1e-2, mean: 1e-4 } };

interface Episode {
  tokens: number[];
  /** For the model's tokens, in order. */
  logprobs: number[];
  loss_mask: number[];
  given: number;
}

/** A conversation of several turns on one sequence. */
async function playEpisode(
  engine: TestedEngine,
  { prompt, adapter, rng_key }: { prompt: number[]; adapter: string | null; rng_key: number },
  lengths: Lengths,
): Promise<Episode> {
  const result = RESULT.slice(-lengths.result);
  const { client } = engine, sequence = client.newSequence();
  await client.call("sequence_open", { sequence, adapter, parent: null, tokens: prompt });
  const episode: Episode = {
    tokens: [...prompt],
    logprobs: [],
    loss_mask: prompt.map(() => 0),
    given: prompt.length,
  };
  for (let turn = 0; turn < lengths.turns; turn++) {
    if (turn > 0) {
      await client.call("sequence_extend", { sequence, tokens: result });
      episode.tokens.push(...result);
      episode.loss_mask.push(...result.map(() => 0));
      episode.given += result.length;
    }
    const generated: Generated = await generate(engine, {
      ...{ sequence, max_tokens: lengths.turn, stop_tokens: [eos] },
      sampling: { temperature: 1, rng_key: [rng_key, 5] },
    });
    episode.tokens.push(...generated.tokens);
    episode.logprobs.push(...generated.logprobs);
    episode.loss_mask.push(...generated.tokens.map(() => 1));
  }
  await client.call("sequence_close", { sequence });
  return episode;
}

/** The forms of the machine's device, and those of GPUs, which decode with fused kernels. */
const CASES: readonly { kind: Kind; type: "f32" | "f16"; open: typeof openGpu }[] = [
  { kind: "f16", type: "f32", open: openGpu },
  { kind: "q8_0", type: "f32", open: openGpu },
  { kind: "f16", type: "f16", open: openGpu },
  { kind: "q8_0", type: "f16", open: openAsGpu },
  { kind: "f16", type: "f32", open: openAsGpu },
];

for (const { kind, type, open } of CASES) {
  const name = `${kind}, ${type} operands and cache${open === openAsGpu ? ", forms of GPUs" : ""}`;
  gpuTest(`${name}: sampled log-probabilities are the trainer's`, async () => {
    const engine = await openEngine(kind, { compute: type, kv: type }, open), { client } = engine;
    const lengths = open === openAsGpu ? SHORT : LONG;
    try {
      const source = { type: "file", path: await fixturePath(GOLDEN_ADAPTER) } as const;
      await client.call("adapter_open", { adapter: "golden", source });
      const differences: number[] = [];
      for (const adapter of open === openAsGpu ? ["golden"] : [null, "golden"]) {
        const before = await client.call("counters", null);
        const episodes = await Promise.all(
          APART.map((i) => {
            const prompt = prompts[i]!.ids.slice(0, lengths.prompt);
            return playEpisode(engine, { prompt, adapter, rng_key: i }, lengths);
          }),
        );
        const after = await client.call("counters", null);
        expectOncePrefilled(episodes, before, after);
        const { logprobs } = await client.call("score", {
          adapter,
          samples: episodes.map(({ tokens, loss_mask }, i) => sample(tokens, i, { loss_mask })),
        });
        episodes.forEach((episode, i) => {
          equal(logprobs[i]!.length, episode.logprobs.length);
          episode.logprobs.forEach((lp, t) => differences.push(Math.abs(lp - logprobs[i]![t]!)));
        });
      }
      const most = Math.max(...differences), mean = differences.reduce((a, b) => a + b) / differences.length;
      console.log(
        `${name}: over ${differences.length} tokens the sampler and the trainer differ by at most ` +
          `${most.toExponential(1)}, ${mean.toExponential(1)} in the mean`,
      );
      ok(differences.length > APART.length * lengths.turns * lengths.turn / 2);
      ok(most <= BOUND[type].most && mean <= BOUND[type].mean);
    } finally {
      await engine.close();
    }
  }, type === "f16" ? lacksF16 : undefined);
}

/** Checks that every given token was prefilled once, and every other one sampled once. */
function expectOncePrefilled(
  episodes: readonly Episode[],
  before: EngineCounters,
  after: EngineCounters,
): void {
  const given = episodes.reduce((sum, episode) => sum + episode.given, 0);
  const generated = episodes.reduce((sum, { logprobs }) => sum + logprobs.length, 0);
  equal(after.prefill_tokens - before.prefill_tokens, given, "prompts and tool results, each token once");
  equal(after.decode_tokens - before.decode_tokens, generated);
  equal(after.kv_pages_used, before.kv_pages_used, "and the pages came back");
}

gpuTest(
  "one submit per micro-batch and block of a software adapter; one readback per step or block",
  async () => {
    const engine = await openEngine("f16", { micro_batch_tokens: 400 }), { client } = engine;
    const during = async (work: () => Promise<unknown>) => {
      const before = await client.call("counters", null);
      await work();
      const after = await client.call("counters", null);
      const difference = (key: "submits" | "readbacks" | "decode_steps" | "decode_tokens") =>
        after[key] - before[key];
      return {
        submits: difference("submits"),
        readbacks: difference("readbacks"),
        decode_steps: difference("decode_steps"),
        decode_tokens: difference("decode_tokens"),
      };
    };
    try {
      const { software } = await client.call("probe", { device: "auto", webgpu: "auto" });
      const lora = { rank: 4, alpha: 8, targets: ["q_proj" as const] };
      await client.call("adapter_open", { adapter: "policy", source: { type: "init", lora, seed: 1 } });
      const samples = prompts.slice(0, 3).map(({ ids }, i) =>
        sample(ids, i, { loss_mask: ids.map((_, t) => t > 300 ? 1 : 0) })
      );
      const optimizer = {
        learning_rate: 1e-3,
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        weight_decay: 0,
        max_grad_norm: 1,
      };
      const loss = { type: "sft", normalizer: 50 } as const;
      for (const count of [3, 1]) {
        let micro_batches = 0;
        const step = await during(async () => {
          const request = { adapter: "policy", samples: samples.slice(0, count), loss, optimizer };
          ({ micro_batches } = await client.call("train_step", request));
        });
        equal(micro_batches, count, "400 rows hold one prompt");
        equal(step.readbacks, 1);
        // A GPU is given each layer (gradients_test.ts).
        if (software) equal(step.submits, micro_batches);
        const scored = await during(() =>
          client.call("score", { adapter: "policy", samples: samples.slice(0, count) })
        );
        equal(scored.readbacks, 1);
        if (software) equal(scored.submits, count);
      }
      const block = software ? 4 : 16, max_tokens = 2 * block + 3, sequence = client.newSequence();
      const generated = await during(async () => {
        await client.call("sequence_open", {
          sequence,
          adapter: null,
          parent: null,
          tokens: prompts[4]!.ids,
        });
        await generate(engine, { sequence, max_tokens });
      });
      deepEqual(
        [generated.decode_tokens, generated.decode_steps],
        [max_tokens, max_tokens],
        "no step after the end",
      );
      equal(generated.readbacks, 1 + Math.ceil((max_tokens - 1) / block), "the first token, and blocks");
      // 356 given tokens run in one pass, which a GPU gets before the first step is recorded.
      equal(generated.submits, software ? generated.readbacks : generated.decode_steps + 1);
    } finally {
      await engine.close();
    }
  },
);

gpuTest(
  "in the forms of GPUs each step is submitted when it is recorded, and a block is read at once",
  async () => {
    const engine = await openEngine("f16", {}, openAsGpu), { client } = engine, max_tokens = 2 * 16 + 3;
    try {
      const before = await client.call("counters", null), sequence = client.newSequence();
      const tokens = prompts[4]!.ids.slice(0, 8);
      await client.call("sequence_open", { sequence, adapter: null, parent: null, tokens });
      await generate(engine, { sequence, max_tokens });
      const after = await client.call("counters", null);
      const difference = (key: "decode_tokens" | "decode_steps" | "readbacks" | "submits") =>
        after[key] - before[key];
      deepEqual([difference("decode_tokens"), difference("decode_steps")], [max_tokens, max_tokens]);
      // The pass over the given tokens is a submit too.
      equal(difference("submits"), max_tokens + 1);
      // Blocks of 16; the first token is one by itself if the given ones had not run before.
      ok(difference("readbacks") <= 4, `${difference("readbacks")} readbacks`);
      // From 512 given tokens on a pass is submitted layer by layer, which changes no bit.
      const given = prompts.flatMap(({ ids }) => ids);
      const sampled = async (first: number, count: number) => {
        const { submits } = await client.call("counters", null);
        const sequence = client.newSequence(), tokens = given.slice(0, first);
        await client.call("sequence_open", { sequence, adapter: null, parent: null, tokens });
        if (first < count) {
          await generate(engine, { sequence, max_tokens: 1 });
          await client.call("sequence_truncate", { sequence, length: first });
          await client.call("sequence_extend", { sequence, tokens: given.slice(first, count) });
        }
        const { tokens: drawn, logprobs } = await generate(engine, { sequence, max_tokens: 2 });
        const taken = (await client.call("counters", null)).submits - submits;
        await client.call("sequence_close", { sequence });
        return { drawn, logprobs, taken };
      };
      const short = await sampled(511, 511), long = await sampled(512, 512), parts = await sampled(256, 512);
      // The last of four layers computes little for most of the rows.
      equal(long.taken - short.taken, 3);
      deepEqual([parts.drawn, parts.logprobs], [long.drawn, long.logprobs]);
    } finally {
      await engine.close();
    }
  },
);
