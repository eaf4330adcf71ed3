import assert from "node:assert/strict";
import { comparison, faster } from "./bench_peers.ts";

Deno.test("of two rounds the faster one of each measurement counts", () => {
  const rounds = [
    new Map([["decode, 1 sequences", 100], ["prefill", 5]]),
    new Map([["decode, 1 sequences", 90]]),
  ];
  assert.deepEqual(faster(rounds[0]!, rounds[1]!), new Map([["decode, 1 sequences", 100], ["prefill", 5]]));
});

Deno.test("a program is compared with this one by the ratio of their tokens per second", () => {
  const [line] = comparison("llama.cpp", new Map([["prefill", 300]]), new Map([["prefill", 200]]));
  assert.deepEqual(line, {
    ...{ bench: "peers", by: "llama.cpp", name: "prefill", value: 300, unit: "tokens/s", ratio: 1.5 },
  });
});
