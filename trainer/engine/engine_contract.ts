/** Tests that every engine must pass, the scripted one and the one on the GPU. They use the engine's client. */

import { deepEqual, equal, ok, rejects } from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import {
  checkAdapters,
  checkCheckpoint,
  checkDivergence,
  checkInterpolate,
  checkOptimizer,
  checkPolicyLoss,
  checkPreferenceLoss,
  checkScore,
  checkSftLoss,
  checkSharedPrefix,
} from "./engine_training_contract.ts";
import { checkMalformedSamples, checkWeights } from "./engine_samples_contract.ts";
import { SCHEMA_CHECKS } from "./engine_schema_contract.ts";
import {
  close,
  type ContractEngine,
  generate,
  open,
  someTokens,
  type TestedEngine,
} from "./engine_testing.ts";
import { checkAbandoned, checkKept } from "./engine_kept_contract.ts";
import type { EngineCounters } from "../protocol/protocol.ts";

/** All checks of the suite. Each check closes what it opens. */
const ENGINE_CHECKS: Record<string, (engine: ContractEngine) => Promise<void>> = {
  "a generation samples as many tokens as it may and says so": checkMaxTokens,
  "a stop token ends a generation and is its last token": checkStopToken,
  "a generation in two parts equals one": checkTwoParts,
  "the same key samples the same tokens whatever runs beside it": checkBesides,
  "another key samples other tokens": checkRngKeys,
  "tokens given in two parts count as one": checkExtend,
  "a child shares its parent's tokens, which run once": checkParent,
  "a truncated sequence forgets what was generated": checkTruncate,
  "a cancelled generation ends before its answer": checkCancel,
  "a mask admits its tokens only": checkMask,
  "a temperature that would overflow counts as 0": checkTemperature,
  "a block has at most the tokens that its request asks for": checkBlocks,
  ...SCHEMA_CHECKS,
  "closed sequences give their pages back": checkPages,
  "what is not possible is refused and the engine goes on": checkRefusals,
  "scored log-probabilities are the sampled ones": checkScore,
  "an adapter moves along the line from another": checkInterpolate,
  "a kept state comes back with every bit": checkKept,
  "an aborted request ends before its next micro-batch and changes nothing": checkAbandoned,
  "a divergence is over the entire vocabulary": checkDivergence,
  "a new adapter changes nothing, a step changes it, a live sequence forbids it": checkAdapters,
  "the SFT loss is the mean of -logp, and falls": checkSftLoss,
  "a weight is a factor of its token's loss": checkWeights,
  "malformed samples are refused in the words of the request": checkMalformedSamples,
  "every key of the optimiser is felt": checkOptimizer,
  "the policy loss is the clipped objective": checkPolicyLoss,
  "a preference loss parts the completions of pairs": checkPreferenceLoss,
  "a shared prefix is computed once and changes nothing": checkSharedPrefix,
  "training goes on from a checkpoint as if nothing had happened": checkCheckpoint,
};

/** Registers the suite under `name`. All checks share one engine. */
export function testEngine(name: string, open: () => Promise<ContractEngine>): void {
  Deno.test(`${name}: engine contract`, async (t) => {
    const engine = await open();
    try {
      for (const [check, run] of Object.entries(ENGINE_CHECKS)) await t.step(check, () => run(engine));
    } finally {
      await engine.close();
    }
  });
}

const counters = ({ client }: TestedEngine): Promise<EngineCounters> => client.call("counters", null);

async function checkMaxTokens(engine: TestedEngine): Promise<void> {
  const sequence = await open(engine, [5]);
  for (const max_tokens of [1, 7, 20]) {
    const { tokens, logprobs, stop } = await generate(engine, { sequence, max_tokens });
    equal(tokens.length, max_tokens);
    equal(logprobs.length, max_tokens);
    equal(stop, "max_tokens");
    ok(logprobs.every((lp) => lp <= 0 && Number.isFinite(lp)));
  }
  await close(engine, sequence);
}

async function checkStopToken(engine: TestedEngine): Promise<void> {
  const prompt = someTokens(3, 5), sampling = { temperature: 1 };
  const whole = await open(engine, prompt), cut = await open(engine, prompt);
  const all = await generate(engine, { sequence: whole, max_tokens: 12, sampling });
  const stop_token = all.tokens[6]!;
  const first = all.tokens.indexOf(stop_token) + 1;
  const part = await generate(engine, { sequence: cut, max_tokens: 12, stop_tokens: [stop_token], sampling });
  deepEqual(part.tokens, all.tokens.slice(0, first));
  deepEqual(part.logprobs, all.logprobs.slice(0, first));
  equal(part.stop, "stop_token");
  const rest = await generate(engine, { sequence: cut, max_tokens: 12 - first + 1, sampling });
  deepEqual(rest.tokens.slice(0, 12 - first), all.tokens.slice(first), "a stop changes no later token");
  await close(engine, whole, cut);
}

async function checkTwoParts(engine: TestedEngine): Promise<void> {
  const sampling = { temperature: 1, rng_key: [9, 9] as const };
  const one = await open(engine, [1, 2, 3]), two = await open(engine, [1, 2, 3]);
  const whole = await generate(engine, { sequence: one, max_tokens: 9, sampling });
  const head = await generate(engine, { sequence: two, max_tokens: 4, sampling });
  const tail = await generate(engine, { sequence: two, max_tokens: 5, sampling });
  deepEqual([...head.tokens, ...tail.tokens], whole.tokens);
  deepEqual([...head.logprobs, ...tail.logprobs], whole.logprobs);
  await close(engine, one, two);
}

async function checkBesides(engine: TestedEngine): Promise<void> {
  const sampling = { temperature: 1, rng_key: [77, 5] as const };
  const alone = await open(engine, someTokens(8, 40));
  const expected = await generate(engine, { sequence: alone, max_tokens: 16, sampling });
  await close(engine, alone);
  const lengths = [3, 40, 65, 31];
  const sequences = await Promise.all(lengths.map((n, i) => open(engine, someTokens(i === 1 ? 8 : i, n))));
  const generated = await Promise.all(sequences.map((sequence, i) =>
    generate(engine, {
      sequence,
      max_tokens: 16 + 3 * (i === 1 ? 0 : i),
      sampling: i === 1 ? sampling : { temperature: 1, rng_key: [i, i] as const },
    })
  ));
  deepEqual(generated[1]!.tokens, expected.tokens);
  deepEqual(generated[1]!.logprobs, expected.logprobs, "bit for bit");
  await close(engine, ...sequences);
}

async function checkRngKeys(engine: TestedEngine): Promise<void> {
  const outcomes = new Set<string>();
  for (let i = 0; i < 4; i++) {
    const sequence = await open(engine, [11]);
    const sampling = { temperature: 1, rng_key: [i, 3] as const };
    outcomes.add(String((await generate(engine, { sequence, max_tokens: 12, sampling })).tokens));
    await close(engine, sequence);
  }
  ok(outcomes.size > 1);
}

async function checkExtend(engine: TestedEngine): Promise<void> {
  const tokens = someTokens(2, 50);
  const whole = await open(engine, tokens), parts = await open(engine, tokens.slice(0, 31));
  await engine.client.call("sequence_extend", { sequence: parts, tokens: tokens.slice(31) });
  const expected = await generate(engine, { sequence: whole, max_tokens: 8 });
  deepEqual((await generate(engine, { sequence: parts, max_tokens: 8 })).tokens, expected.tokens);
  await close(engine, whole, parts);
}

async function checkParent(engine: TestedEngine): Promise<void> {
  const tokens = someTokens(1, 70), sampling = { temperature: 1, rng_key: [4, 4] as const };
  const alone = await open(engine, [...tokens, 9]);
  const expected = await generate(engine, { sequence: alone, max_tokens: 10, sampling });
  await close(engine, alone);
  const before = await counters(engine);
  const parent = await open(engine, tokens);
  const children = await Promise.all([9, 9, 8].map((token) => open(engine, [token], { parent })));
  const generated = await Promise.all(
    children.map((sequence) => generate(engine, { sequence, max_tokens: 10, sampling })),
  );
  const after = await counters(engine);
  deepEqual(generated[0], expected, "a child equals a sequence of its own, bit for bit");
  deepEqual(generated[1], expected);
  equal(after.prefill_tokens - before.prefill_tokens, 70 + 3, "the parent's tokens run once");
  equal(after.decode_tokens - before.decode_tokens, 30);
  const bare = await open(engine, [], { parent }), whole = await open(engine, tokens);
  deepEqual(
    await generate(engine, { sequence: bare, max_tokens: 4, sampling }),
    await generate(engine, { sequence: whole, max_tokens: 4, sampling }),
    "a child needs no token of its own",
  );
  await close(engine, parent, bare, whole);
  const later = await generate(engine, { sequence: children[0]!, max_tokens: 4, sampling });
  const sibling = await generate(engine, { sequence: children[1]!, max_tokens: 4, sampling });
  deepEqual(later, sibling, "children outlive their parent");
  await close(engine, ...children);
}

async function checkTruncate(engine: TestedEngine): Promise<void> {
  const sampling = { temperature: 1, rng_key: [6, 1] as const };
  const sequence = await open(engine, someTokens(5, 30));
  const first = await generate(engine, { sequence, max_tokens: 20, sampling });
  await engine.client.call("sequence_truncate", { sequence, length: 30 });
  deepEqual(await generate(engine, { sequence, max_tokens: 20, sampling }), first);
  await engine.client.call("sequence_truncate", { sequence, length: 30 + 5 });
  const tail = await generate(engine, { sequence, max_tokens: 15, sampling });
  deepEqual(tail.tokens, first.tokens.slice(5));
  await close(engine, sequence);
}

async function checkCancel(engine: TestedEngine): Promise<void> {
  const { client } = engine;
  const sequence = await open(engine, [2]);
  await client.call("sequence_cancel", { sequence });
  const sampling = { temperature: 0, top_p: 1, top_k: 0, rng_key: [0, 0] as const, mask: null };
  for await (const block of client.generate({ sequence, max_tokens: 200, stop_tokens: [], sampling })) {
    ok(block.tokens.length > 0 && block.tokens.length < 200);
    break;
  }
  await client.call("sequence_cancel", { sequence });
  await client.call("sequence_truncate", { sequence, length: 1 });
  equal(
    (await generate(engine, { sequence, max_tokens: 3 })).stop,
    "max_tokens",
    "no late block of the first",
  );
  const generating = generate(engine, { sequence, max_tokens: 200 });
  await client.call("sequence_cancel", { sequence });
  equal((await generating).stop, "cancelled");
  await close(engine, sequence);
}

async function checkMask(engine: TestedEngine): Promise<void> {
  const allowed = [3, 17, 40];
  const sequence = await open(engine, [1]);
  for (const temperature of [0, 1]) {
    const sampling = { temperature, mask: { type: "allowed_tokens" as const, tokens: allowed } };
    const { tokens } = await generate(engine, { sequence, max_tokens: 10, sampling });
    ok(tokens.every((token) => allowed.includes(token)));
  }
  await close(engine, sequence);
}

async function checkTemperature(engine: TestedEngine): Promise<void> {
  const generated = [];
  for (const temperature of [0, 1e-40, 5e-324]) {
    const sequence = await open(engine, someTokens(4, 5));
    const { tokens, logprobs } = await generate(engine, {
      sequence,
      max_tokens: 5,
      sampling: { temperature },
    });
    generated.push({ tokens, logprobs });
    await close(engine, sequence);
  }
  deepEqual(generated[1], generated[0]);
  deepEqual(generated[2], generated[0]);
}

async function checkBlocks(engine: TestedEngine): Promise<void> {
  const prompt = someTokens(6, 5), request = { max_tokens: 11, stop_tokens: [] };
  const sampling = { temperature: 1, top_p: 1, top_k: 0, rng_key: [3, 4] as const, mask: null };
  const [one, two] = [await open(engine, prompt), await open(engine, prompt)];
  const whole = await generate(engine, { sequence: one, max_tokens: 11, sampling });
  const blocks: number[][] = [];
  for await (
    const { tokens } of engine.client.generate({ sequence: two, ...request, sampling, block_tokens: 3 })
  ) blocks.push(tokens);
  deepEqual(blocks.map(({ length }) => length), [3, 3, 3, 2]);
  deepEqual(blocks.flat(), whole.tokens, "its tokens do not depend on that");
  await rejects(
    engine.client.call("sequence_generate", { sequence: two, ...request, sampling, block_tokens: 0 }),
    ServiceError,
  );
  await close(engine, one, two);
}

async function checkPages(engine: TestedEngine): Promise<void> {
  const before = (await counters(engine)).kv_pages_used;
  const parent = await open(engine, someTokens(0, 64));
  equal((await counters(engine)).kv_pages_used - before, 2);
  const child = await open(engine, someTokens(0, 33), { parent });
  equal((await counters(engine)).kv_pages_used - before, 4, "full pages are shared");
  await close(engine, parent);
  equal((await counters(engine)).kv_pages_used - before, 4, "and stay while a child uses them");
  await close(engine, child);
  equal((await counters(engine)).kv_pages_used, before);
}

async function checkRefusals(engine: TestedEngine): Promise<void> {
  const { client } = engine;
  const sequence = await open(engine, [1, 2]);
  const sampling = { temperature: 1, top_p: 1, top_k: 0, rng_key: [0, 0] as const, mask: null };
  const code = (expected: string) => (e: unknown) => e instanceof ServiceError && e.code === expected;
  const unknown = { sequence: 1 << 30 };
  await rejects(client.call("sequence_close", unknown), ServiceError);
  await rejects(client.call("sequence_extend", { ...unknown, tokens: [1] }), ServiceError);
  await rejects(open(engine, [1], { adapter: "nobody" }), ServiceError);
  await rejects(open(engine, []), ServiceError);
  // The requests are sent at once, so that the generation is running whatever its speed.
  const generating = generate(engine, { sequence, max_tokens: 100, sampling });
  await Promise.all([
    rejects(
      client.call("sequence_open", { sequence, adapter: null, parent: null, tokens: [1] }),
      code("conflict"),
    ),
    rejects(client.call("sequence_extend", { sequence, tokens: [1] }), code("conflict")),
    client.call("sequence_cancel", { sequence }),
  ]);
  equal((await generating).stop, "cancelled");
  await rejects(client.call("sequence_truncate", { sequence, length: 1 << 20 }), ServiceError);
  await rejects(
    client.call("sequence_generate", { sequence, max_tokens: 0, stop_tokens: [], sampling }),
    ServiceError,
  );
  equal((await generate(engine, { sequence, max_tokens: 2 })).tokens.length, 2, "the engine goes on");
  const first = generate(engine, { sequence, max_tokens: 6 });
  await rejects(generate(engine, { sequence, max_tokens: 1 }), code("conflict"));
  equal((await first).tokens.length, 6, "a second generation does not disturb the first");
  await close(engine, sequence);
}
