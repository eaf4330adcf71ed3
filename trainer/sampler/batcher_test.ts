import { deepEqual, equal, match, ok, rejects, throws } from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import { Rng, rngKey } from "../../core/random.ts";
import type { SamplingRequest } from "../protocol/protocol.ts";
import type { DeviceAdapter } from "../model/device_adapter.ts";
import { Grammars } from "../grammar/grammars.ts";
import {
  continuation,
  createBatcher,
  generate,
  open,
  SAMPLING,
  SIZES,
  some,
  VOCABULARY,
} from "./batcher_testing.ts";
import type { Sequence } from "./sequence.ts";

/** Two distinguishable adapters. */
const ADAPTERS = [{}, {}] as DeviceAdapter[];

Deno.test("a group's tokens run before it samples, in limited passes", async () => {
  const { batcher, fake, drain, heard } = createBatcher();
  const short = open(batcher, some(2, 20)), long = open(batcher, some(1, 70));
  generate(batcher, long, { max_tokens: 6 });
  generate(batcher, short, { max_tokens: 2 });
  await drain();
  deepEqual(fake.calls.map(({ type, counts }) => [type, ...counts]), [
    ["prefill", 20, 28],
    ["prefill", 42],
    ["decode", 1, 1],
    ["decode", 4, 4],
    ["decode", 1],
  ]);
  deepEqual(heard(long), { tokens: continuation(some(1, 70), 6), stop: "max_tokens", error: null });
  deepEqual(heard(short).tokens, continuation(some(2, 20), 2));
  const { prefill_tokens, prefill_steps, decode_tokens, decode_steps, decode_rows } = batcher.counters;
  deepEqual([prefill_tokens, prefill_steps], [90, 2]);
  deepEqual([decode_tokens, decode_steps, decode_rows], [8, 6, 6 * SIZES.max_sequences]);
});

Deno.test("given tokens share a pass with those that were sampled last, however many there are", async () => {
  const { batcher, fake, drain, heard } = createBatcher();
  const first = open(batcher, some(0, 5));
  generate(batcher, first, { max_tokens: 16 });
  await batcher.step();
  const second = open(batcher, some(1, 60)),
    third = open(batcher, some(2, 7)),
    tools = open(batcher, some(3, 3));
  for (const sequence of [second, third]) generate(batcher, sequence, { max_tokens: 4 });
  await drain();
  deepEqual(fake.calls.map(({ type, sequences, counts }) => [type, sequences.toSorted(), ...counts]), [
    ["prefill", [first.id], 5],
    ["decode", [first.id], 1],
    // 48 tokens at most.
    ["prefill", [first.id, second.id], 47, 1],
    ["decode", [first.id], 1],
    ["prefill", [first.id, second.id, third.id, tools.id], 13, 7, 3, 1],
    ["decode", [first.id, second.id, third.id], 1, 1, 1],
    ["decode", [first.id, second.id, third.id], 4, 4, 4],
    ["decode", [first.id], 4],
    ["decode", [first.id], 4],
    ["decode", [first.id], 1],
  ]);
  deepEqual(heard(first).tokens, continuation(some(0, 5), 16));
  deepEqual(heard(second).tokens, continuation(some(1, 60), 4));
  deepEqual(heard(third).tokens, continuation(some(2, 7), 4));
  const { prefill_tokens, prefill_steps, decode_tokens } = batcher.counters;
  deepEqual([prefill_tokens, prefill_steps, decode_tokens], [75, 3, 24]);
});

Deno.test("where a pass has room for few tokens, half of it is for given ones", async () => {
  const { batcher, fake, drain, heard } = createBatcher({ max_prefill: 4 });
  const early = [0, 1, 2, 3].map((i) => open(batcher, some(i, 2)));
  for (const sequence of early) generate(batcher, sequence, { max_tokens: 9 });
  while (early.some((sequence) => sequence.tokens.length === 2)) await batcher.step();
  const late = open(batcher, some(9, 5)), { length } = fake.calls;
  generate(batcher, late, { max_tokens: 3 });
  await drain();
  const passes = fake.calls.slice(length).filter(({ type }) => type === "prefill").slice(0, 3);
  deepEqual(passes.map(({ counts }) => counts), [[2, 1, 1], [2, 1, 1], [1, 1, 1, 1]]);
  for (const [i, sequence] of early.entries()) {
    deepEqual(heard(sequence).tokens, continuation(some(i, 2), 9));
  }
  deepEqual(heard(late).tokens, continuation(some(9, 5), 3));
});

Deno.test("rows that end are refilled at the next block", async () => {
  const { batcher, fake, drain } = createBatcher({ max_sequences: 2 });
  const sequences = [8, 3, 4].map((count, i) => {
    const sequence = open(batcher, some(i, 5));
    generate(batcher, sequence, { max_tokens: count });
    return sequence.id;
  });
  await drain();
  const [a, b, c] = sequences;
  const decodes = fake.calls.filter(({ type }) => type === "decode").map((call) => call.sequences.sort());
  deepEqual(decodes, [[a, b], [a, b], [a, c]]);
});

Deno.test("adapters take turns, and a step runs one of them", async () => {
  const { batcher, fake, drain } = createBatcher();
  for (const adapter of [...ADAPTERS, ADAPTERS[0]!]) {
    generate(batcher, open(batcher, some(4, 9), { adapter }), { max_tokens: 12 });
  }
  await drain();
  const order = fake.calls.map(({ type, adapter }) => `${type} ${ADAPTERS.indexOf(adapter!)}`);
  const turn = ["prefill 0", "decode 0", "prefill 1", "decode 1"];
  const blocks = ["decode 0", "decode 1"];
  deepEqual(order, [...turn, ...blocks, ...blocks, ...blocks]);
});

Deno.test("a sampled last token runs when something follows it, and does not count as given", async () => {
  const { batcher, fake, drain, heard } = createBatcher();
  const sequence = open(batcher, some(6, 10));
  const sampled = continuation(some(6, 10), 20), stop = sampled[5]!;
  generate(batcher, sequence, { max_tokens: 20, stop_tokens: [stop] });
  await drain();
  const length = sampled.indexOf(stop) + 1;
  deepEqual(heard(sequence), { tokens: sampled.slice(0, length), stop: "stop_token", error: null });
  batcher.extend(sequence, [1, 2, 3]);
  await drain();
  deepEqual(fake.calls.at(-1)!.counts, [4]);
  equal(batcher.counters.prefill_tokens, 13);
});

Deno.test("children of children that have not run yet wait for the first of them", async () => {
  for (const length of [70, 64]) {
    for (const own of [[], [9]]) {
      const { batcher, drain, heard } = createBatcher();
      const tokens = some(1, length), parent = open(batcher, tokens);
      const child = open(batcher, [], { parent }), grandchild = open(batcher, own, { parent: child });
      generate(batcher, grandchild, { max_tokens: 5 });
      await drain();
      deepEqual(heard(grandchild).tokens, continuation([...tokens, ...own], 5));
      generate(batcher, child, { max_tokens: 5 });
      await drain();
      deepEqual(heard(child).tokens, continuation(tokens, 5));
      equal(batcher.counters.prefill_tokens <= length + own.length + 2, true, "the parent's tokens run once");
      for (const sequence of [parent, child, grandchild]) await batcher.close(sequence);
      equal(batcher.store.pages.used, 0);
    }
  }
});

Deno.test("a closed parent's pages stay for children that wait for them", async () => {
  const { batcher, drain, heard } = createBatcher();
  const parent = open(batcher, some(1, 40)), child = open(batcher, [7], { parent });
  await batcher.close(parent);
  generate(batcher, child, { max_tokens: 3 });
  await drain();
  deepEqual(heard(child).tokens, continuation([...some(1, 40), 7], 3));
  await batcher.close(child);
  equal(batcher.store.pages.used, 0);
});

Deno.test("a generation takes pages as it goes, and those it may still need are kept for it", async () => {
  const { batcher, heard, drain } = createBatcher({ pages: 8, block_steps: 4 }), { store } = batcher;
  const first = open(batcher, some(0, 30));
  generate(batcher, first, { max_tokens: 200 });
  equal(store.pages.used, 1, "231 tokens need 8 pages");
  throws(() => open(batcher, some(0, 1)), /Cannot hold 1 more pages .* 0 of 8 are free/);
  await batcher.step();
  equal(store.pages.used, 2, "a block has brought it to 34 tokens");
  await drain();
  deepEqual([heard(first).tokens.length, store.pages.used], [200, 8]);
  await batcher.close(first);
  const second = open(batcher, some(0, 30));
  generate(batcher, second, { max_tokens: 200 });
  const cancelled = batcher.cancel(second);
  await drain();
  await cancelled;
  equal(store.pages.used, 1);
  open(batcher, some(0, 7 * 32));
  equal(store.pages.used, 8, "a cancelled generation needs no more");
});

Deno.test("invalid requests are refused and change nothing", async () => {
  const { batcher, drain } = createBatcher({ pages: 8, slots: 3 });
  const sequence = open(batcher, some(1, 40));
  const used = batcher.store.pages.used;
  const refused = (run: () => unknown, pattern: RegExp, code: string) =>
    throws(
      run,
      (error) => error instanceof ServiceError && error.code === code && pattern.test(error.message),
    );
  refused(() => open(batcher, []), /without tokens/, "config_invalid");
  refused(
    () => open(batcher, [VOCABULARY]),
    /Cannot give token 50 to sequence \d+: the vocabulary has 50/,
    "config_invalid",
  );
  refused(() => open(batcher, [-1]), /Cannot give token -1/, "config_invalid");
  refused(() => open(batcher, some(0, 257)), /the context holds 256/, "config_invalid");
  refused(
    () => open(batcher, some(2, 250)),
    /Cannot hold 8 more pages .* 6 of 8 are free\. Lower agent\.concurrent_rollouts/,
    "out_of_memory",
  );
  refused(
    () => open(batcher, [1], { parent: sequence, adapter: ADAPTERS[0]! }),
    /another adapter/,
    "conflict",
  );
  refused(() => batcher.extend(sequence, some(0, 250)), /the context holds 256/, "config_invalid");
  refused(() => generate(batcher, sequence, { max_tokens: 0 }), /max_tokens is 0/, "config_invalid");
  refused(
    () => generate(batcher, sequence, { max_tokens: 5, stop_tokens: some(0, 99) }),
    /stop tokens are above/,
    "config_invalid",
  );
  const wrong: [Partial<SamplingRequest>, RegExp][] = [
    [{ temperature: -1 }, /temperature -1 is below 0/],
    [{ top_p: 0 }, /top_p 0 is not in/],
    [{ top_p: 1.1 }, /top_p 1.1 is not in/],
    [{ mask: { type: "allowed_tokens", tokens: [] } }, /empty set/],
  ];
  for (const [sampling, pattern] of wrong) {
    const request = { sequence: 0, max_tokens: 1, stop_tokens: [], sampling: { ...SAMPLING, ...sampling } };
    refused(() => batcher.generate(sequence, request), pattern, "config_invalid");
  }
  await rejects(batcher.truncate(sequence, 0), /Cannot truncate sequence \d+ to 0: it has 40 tokens/);
  await rejects(batcher.truncate(sequence, 41), ServiceError);
  equal(batcher.store.pages.used, used);
  open(batcher, [1]);
  open(batcher, [2]);
  refused(() => open(batcher, [3]), /Cannot hold more than 3 sequences at a time/, "out_of_memory");
  generate(batcher, sequence, { max_tokens: 5 });
  refused(() => batcher.extend(sequence, [1]), /while it generates/, "conflict");
  refused(() => generate(batcher, sequence, { max_tokens: 5 }), /while it generates/, "conflict");
  await rejects(batcher.truncate(sequence, 3), /while it generates/);
  await drain();
});

Deno.test("a mask that fails ends its own generation only, and a mask of a schema takes single steps", async () => {
  const grammars = new Grammars(() => ({
    size: VOCABULARY,
    bytesOf: (id) => new TextEncoder().encode(id < 10 ? String(id) : ""),
    isControl: () => false,
  }));
  const alone = createBatcher(), reference = open(alone.batcher, [5, 6]);
  generate(alone.batcher, reference, { max_tokens: 6 });
  await alone.drain();
  const { batcher, heard, drain, fake } = createBatcher({}, grammars);
  const free = open(batcher, [5, 6]), stuck = open(batcher, [1]), astray = open(batcher, [2]);
  const masked = (sequence: Sequence, schema: unknown) =>
    batcher.generate(sequence, {
      ...{ sequence: sequence.id, max_tokens: 6, stop_tokens: [49] },
      sampling: { ...SAMPLING, mask: { type: "json_schema", schema: JSON.stringify(schema) } },
    });
  generate(batcher, free, { max_tokens: 6 });
  masked(stuck, { const: "a" });
  // The fake samples what it likes: 17 · 31 + 2 + 7 is 36 modulo 50, which no number has.
  masked(astray, { type: "integer" });
  await drain();
  match(heard(stuck).error!.message, /no token of the vocabulary has the characters that must follow/);
  match(heard(astray).error!.message, /Cannot go on after token 36: the JSON schema does not allow it/);
  deepEqual([heard(free).tokens, heard(free).error], [alone.heard(reference).tokens, null]);
  const decodes = fake.calls.filter(({ type }) => type === "decode");
  deepEqual(decodes.map(({ sequences, counts }) => [sequences.length, counts[0]]), [[2, 1], [1, 4], [1, 1]]);
  equal((await Promise.all([free, stuck, astray].map((sequence) => batcher.close(sequence)))).length, 3);
  equal(batcher.store.pages.used, 0);
});

Deno.test("a child without a page for its parent's last tokens fails alone", async () => {
  const { batcher, heard, drain } = createBatcher({ pages: 3 });
  const parent = open(batcher, some(0, 27));
  generate(batcher, parent, { max_tokens: 12 });
  while (parent.tokens.length < 32) await batcher.step();
  // It would need a copy of the full page, in which the last token runs again, and one for what it samples.
  const child = open(batcher, [], { parent });
  generate(batcher, child, { max_tokens: 1 });
  await drain();
  match(heard(child).error!.message, /Cannot hold 1 more pages/);
  deepEqual(heard(parent), { tokens: continuation(some(0, 27), 12), stop: "max_tokens", error: null });
  await batcher.close(parent);
  const forked = child.tokens;
  generate(batcher, child, { max_tokens: 1 });
  await drain();
  deepEqual(heard(child).tokens, continuation(forked.slice(0, 32), 1));
  await batcher.close(child);
  equal(batcher.store.pages.used, 0);
});

Deno.test("a step that cannot start leaves nothing behind", async () => {
  const { batcher, fake, heard, drain } = createBatcher(), { start } = fake;
  const first = open(batcher, some(0, 5));
  generate(batcher, first, { max_tokens: 40 });
  await batcher.step();
  const second = open(batcher, some(1, 5));
  fake.start = () => {
    throw new ServiceError("out_of_memory", "Cannot allocate anything");
  };
  await rejects(batcher.step(), /Cannot allocate/);
  batcher.fail(new ServiceError("out_of_memory", "Cannot allocate anything"));
  fake.start = start;
  await batcher.close(second);
  const { length } = heard(first).tokens;
  generate(batcher, first, { max_tokens: 3 });
  await drain();
  deepEqual(heard(first).tokens, continuation(some(0, 5), length + 3));
});

Deno.test("a lost device fails every generation and nothing else", async () => {
  const { batcher, heard } = createBatcher();
  const generating = open(batcher, [1]), idle = open(batcher, [2]);
  generate(batcher, generating, { max_tokens: 5 });
  batcher.fail(new ServiceError("device_lost", "Cannot go on: it is gone"));
  equal(heard(generating).error?.code, "device_lost");
  equal(heard(idle).error, null);
  await batcher.close(generating);
});

Deno.test("in any mix of sequences each reads its own tokens and samples as if alone", async () => {
  for (let seed = 0; seed < 60; seed++) {
    for (const goes_on of [false, true]) await playRandomly(new Rng(rngKey(seed, "batcher")), goes_on);
  }
});

/** Random requests over few pages; the fake checks all reads, this all sampled tokens. */
async function playRandomly(random: Rng, goes_on: boolean): Promise<void> {
  const max_prefill = random.below(3) === 0 ? 3 : SIZES.max_prefill;
  const { batcher, heard, fake } = createBatcher({ max_prefill });
  fake.goes_on = goes_on;
  const live: Sequence[] = [], adapters = [null, ...ADAPTERS];
  const pick = <T>(list: readonly T[]): T => list[random.below(list.length)]!;
  /** Runs steps until a request that waits for the batcher is answered. */
  const settle = async (request: Promise<void>) => {
    let is_done = false;
    const done = request.finally(() => is_done = true);
    for (let steps = 0; !is_done; steps++) {
      ok(steps < 1000, "a request is answered");
      await batcher.step();
      await Promise.resolve();
    }
    await done;
  };
  const before = new Map<number, number[]>();
  const actions = [
    () => {
      // Few first tokens, so that sequences often start alike.
      const parent = live.length > 0 && random.below(2) ? pick(live) : null;
      const tokens = some(random.below(2), random.below(90) + (parent ? 0 : 1));
      live.push(open(batcher, tokens, { parent, adapter: parent ? parent.adapter : pick(adapters) }));
    },
    () => batcher.extend(pick(live), some(random.below(VOCABULARY), random.below(40))),
    () => {
      const sequence = pick(live);
      const stop_tokens = some(random.below(VOCABULARY), 3);
      generate(batcher, sequence, { max_tokens: 1 + random.below(12), stop_tokens });
      before.set(sequence.id, [...sequence.tokens]);
      heard(sequence).tokens = [];
    },
    async () => {
      const sequence = pick(live);
      if (!sequence.generation) {
        await settle(batcher.truncate(sequence, 1 + random.below(sequence.tokens.length)));
      }
    },
    async () => await settle(batcher.cancel(pick(live))),
    async () => {
      const [sequence] = live.splice(random.below(live.length), 1);
      await settle(batcher.close(sequence!));
    },
    async () => void await batcher.step(),
    async () => void await batcher.step(),
    async () => void (random.below(4) === 0 && await batcher.pause()),
  ];
  for (let i = 0; i < 60; i++) {
    try {
      await (live.length === 0 ? actions[0]! : pick(actions))();
    } catch (error) {
      // No room, or a generating sequence: refused.
      if (!(error instanceof ServiceError)) throw error;
    }
    for (const sequence of live) {
      const from = before.get(sequence.id);
      if (!from || !sequence.generation) continue;
      deepEqual(heard(sequence).tokens, continuation(from, heard(sequence).tokens.length));
    }
  }
  while (await batcher.step());
  ok(
    live.every(({ generation, waits_for }) => generation === null && waits_for === null),
    "nobody waits for ever",
  );
  for (const sequence of live) await batcher.close(sequence);
  equal(batcher.store.pages.used, 0, "every page comes back");
  equal(batcher.store.sequences.size, 0);
}
