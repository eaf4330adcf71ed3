import { deepEqual, equal, match } from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import type { WebGpuProviderName } from "../../core/webgpu_providers.ts";
import { continuation, createBatcher, generate, open, some } from "./batcher_testing.ts";
import { byPages } from "./running_block.ts";
import { Sampler } from "./sampler.ts";

Deno.test("rows are ordered by their pages, whichever of two is asked about first", () => {
  const order = [[], [0], [0, 3], [0, 3, 1], [0, 4], [2], [2, 0]].map((pages) => ({ pages }));
  for (const [i, a] of order.entries()) {
    for (const [j, b] of order.entries()) equal(Math.sign(byPages(a, b)), Math.sign(i - j), `${i}, ${j}`);
  }
});

Deno.test("blocks run ahead on a GPU whose reads do not block the thread, and not on a software adapter", () => {
  const ahead = Object.getOwnPropertyDescriptor(Sampler.prototype, "runs_ahead")!.get!;
  const runsAhead = (webgpu: WebGpuProviderName, software: boolean) =>
    ahead.call({ model: { recorder: { gpu: { facts: { webgpu, software } } } } });
  deepEqual([runsAhead("dawn", false), runsAhead("dawn", true)], [true, false]);
  deepEqual([runsAhead("deno", false), runsAhead("deno", true)], [false, false]);
});

Deno.test("a block is started before the last one is read, unless the host has something to do between", async () => {
  const { batcher, fake, heard, drain } = createBatcher();
  fake.goes_on = true;
  const first = open(batcher, some(0, 5)), stop = continuation(some(0, 5), 12)[9]!;
  generate(batcher, first, { max_tokens: 40, stop_tokens: [stop] });
  const blocks = () => fake.calls.filter(({ type }) => type === "decode").length;
  await batcher.step();
  deepEqual([heard(first).tokens.length, blocks()], [1, 2], "the second block is ahead of its reader");
  const second = open(batcher, some(1, 5));
  generate(batcher, second, { max_tokens: 2 });
  await batcher.step();
  deepEqual([heard(first).tokens.length, blocks()], [5, 2], "another sequence waits to join");
  await batcher.step();
  const joined = fake.calls.slice(-3, -1).map(({ type, sequences }) => [type, sequences.toSorted()]);
  deepEqual(joined, [["prefill", [first.id, second.id]], ["decode", [first.id, second.id]]]);
  await drain();
  deepEqual(heard(first), { tokens: continuation(some(0, 5), 10), stop: "stop_token", error: null });
  deepEqual(heard(second).tokens, continuation(some(1, 5), 2));
});

Deno.test("a sequence that ends while the next block runs can go on at once", async () => {
  const { batcher, fake, heard, drain } = createBatcher();
  fake.goes_on = true;
  const tokens = some(3, 30), ends = open(batcher, tokens), long = open(batcher, some(4, 7));
  generate(batcher, ends, { max_tokens: 3 });
  generate(batcher, long, { max_tokens: 30 });
  await batcher.step();
  await batcher.step();
  deepEqual([heard(ends).stop, heard(long).tokens.length, fake.calls.length], ["max_tokens", 5, 4]);
  batcher.extend(ends, [1, 2]);
  generate(batcher, ends, { max_tokens: 5 });
  const child = open(batcher, [], { parent: long });
  generate(batcher, child, { max_tokens: 4 });
  const all = [...tokens, ...continuation(tokens, 3), 1, 2];
  const forked = [...long.tokens];
  await drain();
  deepEqual(heard(ends).tokens.slice(3), continuation(all, 5));
  deepEqual(heard(child).tokens, continuation(forked, 4), "the parent is ahead of the child on the device");
  deepEqual(heard(long).tokens, continuation(some(4, 7), 30));
});

Deno.test("a cancelled generation gets the tokens of the block that runs, and a pause waits for that block", async () => {
  const { batcher, fake, heard, drain } = createBatcher();
  fake.goes_on = true;
  const sequence = open(batcher, some(0, 5));
  generate(batcher, sequence, { max_tokens: 40 });
  await batcher.step();
  const cancelled = batcher.cancel(sequence);
  await batcher.step();
  await cancelled;
  deepEqual([heard(sequence).tokens.length, heard(sequence).stop, fake.calls.length], [5, "cancelled", 3]);
  equal(sequence.processed, sequence.tokens.length - 1, "the last token has not run");
  generate(batcher, sequence, { max_tokens: 20 });
  await batcher.step();
  await batcher.pause();
  equal(heard(sequence).tokens.length, 13);
  const { length } = fake.calls;
  await batcher.pause();
  equal(fake.calls.length, length);
  await drain();
  deepEqual(heard(sequence).tokens, continuation(some(0, 5), 25));
});

Deno.test("logits that are no numbers end one generation, although its next block runs", async () => {
  for (const blocks of [1, 2]) {
    const { batcher, fake, heard, drain } = createBatcher();
    fake.goes_on = true;
    const sound = open(batcher, some(0, 5)), spoiled = open(batcher, some(1, 30));
    for (const sequence of [sound, spoiled]) generate(batcher, sequence, { max_tokens: 20 });
    for (let block = 1; block <= blocks; block++) {
      // A second block samples after tokens that it ran itself; it is on the device already.
      if (block === blocks) fake.spoiled.add(spoiled.id);
      await batcher.step();
    }
    if (blocks === 2) await batcher.step();
    match(heard(spoiled).error!.message, /logits are not numbers/);
    fake.spoiled.clear();
    await drain();
    deepEqual(heard(sound).tokens, continuation(some(0, 5), 20));
    const before = heard(spoiled).tokens;
    generate(batcher, spoiled, { max_tokens: 3 });
    await drain();
    deepEqual(heard(spoiled).tokens, continuation(some(1, 30), before.length));
    equal(before.length, blocks === 1 ? 3 : 8, "what was sampled from sound logits stays");
  }
});

Deno.test("a device that fails while two blocks run fails their generations once", async () => {
  const { batcher, fake, heard } = createBatcher();
  fake.goes_on = true;
  const sequence = open(batcher, some(0, 5));
  generate(batcher, sequence, { max_tokens: 40 });
  await batcher.step();
  const step = batcher.step(), { length } = fake.calls;
  equal(length, 4, "the prompt and three blocks, of which one has been read");
  batcher.fail(new ServiceError("device_lost", "Cannot go on: it is gone"));
  await step;
  deepEqual([heard(sequence).tokens.length, heard(sequence).error?.code], [1, "device_lost"]);
  equal(await batcher.step(), false);
  await batcher.close(sequence);
  equal(batcher.store.pages.used, 0);
});
