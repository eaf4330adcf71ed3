import { equal, ok } from "node:assert/strict";
import { LORA_TARGETS } from "../../core/lora_targets.ts";
import { gpuTest } from "../../kernels/gpu_testing.ts";
import type { LossRequest, TrainingSample } from "../../trainer/protocol/protocol.ts";
import { generate, type TestedEngine } from "../../trainer/engine/engine_testing.ts";
import { openGguf } from "../../trainer/formats/gguf.ts";
import { ChatTemplate } from "../../trainer/tokenizer/chat_template.ts";
import { Renderer } from "../../trainer/tokenizer/renderer.ts";
import { readTokenizer } from "../../trainer/tokenizer/read_tokenizer.ts";
import { fixturePath } from "../fixture.ts";
import { expectNear, openEngine, readGolden, sample } from "./golden.ts";

const QUESTION = "What do violet owls fear?";
const ANSWER = "Zebras at 7 o'clock: 19% quartz, naïveté and jam!";
const MAX_STEPS = 60;
const MEMBERS = 8;

const OPTIMIZER = {
  learning_rate: 5e-3,
  beta1: 0.9,
  beta2: 0.999,
  eps: 1e-8,
  weight_decay: 0,
  max_grad_norm: 1,
};

async function openRenderer(): Promise<Renderer> {
  using file = await openGguf(await fixturePath("models/tiny-agent-f16.gguf"));
  return new Renderer(readTokenizer(file), ChatTemplate.fromGguf(file));
}

gpuTest(
  "an unknown answer is memorised, and a policy step continues from that adapter's file",
  async () => {
    const engine = await openEngine("f16"), directory = await Deno.makeTempDir();
    try {
      const path = `${directory}/sft.gguf`;
      await learnByHeart(engine, path);
      await stepPolicy(engine, path);
    } finally {
      await engine.close();
      await Deno.remove(directory, { recursive: true });
    }
  },
);

async function learnByHeart(engine: TestedEngine, path: string): Promise<void> {
  const { client } = engine;
  const renderer = await openRenderer(), { tokenizer } = renderer;
  const messages = [{ role: "user" as const, content: QUESTION }];
  const prompt = renderer.renderPrompt(messages, { tools: [], variables: {} }).ids;
  const answer = [...tokenizer.encode(ANSWER, { special: false }), tokenizer.eos_id!];
  const tokens = [...prompt, ...answer];
  const samples = [sample(tokens, 0, { loss_mask: tokens.map((_, t) => t >= prompt.length ? 1 : 0) })];
  const lora = { rank: 8, alpha: 16, targets: [...LORA_TARGETS] };
  await client.call("adapter_open", { adapter: "sft", source: { type: "init", lora, seed: 2 } });
  const loss: LossRequest = { type: "sft", normalizer: answer.length };
  const losses: number[] = [];
  while (losses.length < MAX_STEPS && !(losses.at(-1)! < 0.01)) {
    const result = await client.call("train_step", { adapter: "sft", samples, loss, optimizer: OPTIMIZER });
    losses.push(result.loss);
  }
  console.log(
    `${answer.length} tokens: a loss of ${losses[0]} fell to ${losses.at(-1)} in ${losses.length} steps`,
  );
  ok(losses[0]! > 3, "the model does not know the answer");
  ok(losses.at(-1)! < 0.01);
  const sequence = client.newSequence();
  await client.call("sequence_open", { sequence, adapter: "sft", parent: null, tokens: prompt });
  const generating = { sequence, max_tokens: 2 * answer.length, stop_tokens: [tokenizer.eos_id!] };
  const generated = await generate(engine, generating);
  equal(tokenizer.decode(generated.tokens, { special: false }), ANSWER);
  await client.call("sequence_close", { sequence });
  await client.call("adapter_save", { adapter: "sft", path, peft_dir: null });
  await client.call("adapter_close", { adapter: "sft" });
}

/** A group of attempts with rewards 0 and 1 by an arbitrary rule, and the result of a policy step on it. */
async function stepPolicy(engine: TestedEngine, path: string): Promise<void> {
  const { client } = engine;
  const facts = await client.call("adapter_open", { adapter: "policy", source: { type: "file", path } });
  equal(facts.version, 0);
  const prompt = (await readGolden()).prompts[3]!.ids, parent = client.newSequence();
  await client.call("sequence_open", { sequence: parent, adapter: "policy", parent: null, tokens: prompt });
  const members = await Promise.all(Array.from({ length: MEMBERS }, async (_, i) => {
    const sequence = client.newSequence();
    await client.call("sequence_open", { sequence, adapter: "policy", parent, tokens: [] });
    const generated = await generate(engine, {
      ...{ sequence, max_tokens: 12 + 2 * i },
      sampling: { temperature: 1, rng_key: [i, 9] },
    });
    await client.call("sequence_close", { sequence });
    return { ...generated, reward: generated.tokens.reduce((a, b) => a + b) % 2 };
  }));
  await client.call("sequence_close", { sequence: parent });
  const total = members.reduce((sum, { reward }) => sum + reward, 0);
  ok(total > 0 && total < MEMBERS, "the group has both outcomes");
  // Leave-one-out: the reward minus the mean of the others.
  const advantages = members.map(({ reward }) => reward - (total - reward) / (MEMBERS - 1));
  const samples = members.map(({ tokens, logprobs }, i): TrainingSample => {
    const all = [...prompt, ...tokens];
    const place = (value: (t: number) => number) =>
      Float32Array.from(all, (_, t) => t < prompt.length ? 0 : value(t - prompt.length));
    return sample(all, i, {
      loss_mask: all.map((_, t) => t < prompt.length ? 0 : 1),
      ...{ prefix_group: 1, prefix_length: prompt.length },
      advantages: place(() => advantages[i]!),
      old_logprobs: place((t) => logprobs[t]!),
    });
  });
  const objective = async () => {
    const { logprobs } = await client.call("score", { adapter: "policy", samples });
    return logprobs.reduce((sum, row, i) => sum + advantages[i]! * row.reduce((a, b) => a + b), 0);
  };
  const normalizer = 200, before = await objective();
  const result = await client.call("train_step", {
    ...{ adapter: "policy", samples, optimizer: { ...OPTIMIZER, learning_rate: 1e-3 } },
    loss: {
      ...{ type: "policy", importance_sampling_level: "token", clip_low: 0.2, clip_high: 0.28 },
      ...{ kl_coefficient: 0, normalizer },
    },
  });
  // Every ratio is 1, so each member adds −advantage · tokens.
  const expected = -advantages.reduce((sum, a, i) => sum + a * members[i]!.tokens.length, 0) / normalizer;
  expectNear(result.loss, { expected, tolerance: 1e-5, name: "the policy loss" });
  for (const { ratios, clipped } of result.samples) {
    ok(
      ratios.every((ratio) => Math.abs(ratio - 1) < 1e-4),
      "the sampler used the policy that is trained",
    );
    ok(clipped.every((side) => side === 0));
  }
  equal(result.version, 1);
  ok(await objective() > before, "what was rewarded has become likelier");
}
