import assert from "node:assert/strict";
import type { Gpu } from "../device.ts";
import { ShapeError } from "../shape.ts";
import { filled, type Given, gpuTest, run } from "../gpu_testing.ts";
import { advance, MAX_STOP_TOKENS, NONE } from "./advance.ts";

const u32 = (values: readonly number[], ...shape: number[]): Given => [values, shape, "u32"];
const stops = (...lists: number[][]) =>
  lists.flatMap((list) => Object.assign(Array(MAX_STOP_TOKENS).fill(NONE), list));

/**
 * Two steps of five rows: one continues, one samples a stop token, one reaches its last token, one had ended before.
 */
async function twoSteps(gpu: Gpu) {
  return await run(gpu, {
    first: u32([10, 7, 11, 12, 9], 5),
    second: u32([13, 8, 14, 15, 16], 5),
    logprob: [[-0.5, -1, -1.5, -2, -2.5], [5]],
    stop_tokens: u32(stops([7, 8], [7], [1, 2, 3, 4, 5, 6, 7, 8], [12], [0, 0, 0, 0, 0, 0, 0, 9]), 5, 8),
    position: u32([100, 200, 300, 400, 500], 5),
    token_position: u32([1, 1, 1, 1, 1], 5),
    remaining: u32([5, 5, 1, 5, 2], 5),
    slots: u32([0, 1, 2, NONE, 4], 5),
    out: u32(new Array(20).fill(77), 2, 2, 5),
  }, (recorder, t) => {
    advance(recorder, { ...t, token: t.first }, 0);
    advance(recorder, { ...t, token: t.second }, 1);
  });
}

gpuTest("advance writes tokens, advances positions and ends rows", async (gpu) => {
  const actual = await twoSteps(gpu);
  const bits = (value: number) => new Uint32Array(Float32Array.of(value).buffer)[0]!;
  assert.deepEqual([...actual.out], [
    ...[10, 7, 11, NONE, 9],
    ...[13, NONE, NONE, NONE, NONE],
    ...[bits(-0.5), bits(-1), bits(-1.5), NONE, bits(-2.5)],
    ...[bits(-0.5), NONE, NONE, NONE, NONE],
  ]);
  assert.deepEqual([...actual.position], [102, 201, 301, 400, 501]);
  assert.deepEqual([...actual.token_position], [101, 200, 300, 1, 500]);
  assert.deepEqual([...actual.remaining], [3, 4, 0, 5, 1]);
  assert.deepEqual([...actual.slots], [0, NONE, NONE, NONE, NONE]);
});

gpuTest("advance names the tensor whose shape is wrong", async (gpu) => {
  await run(
    gpu,
    { v: filled(0, 2), stop_tokens: filled(0, 2, 4), out: filled(0, 2, 3, 2) },
    (recorder, t) => {
      const rows = {
        token: t.v,
        logprob: t.v,
        position: t.v,
        token_position: t.v,
        remaining: t.v,
        slots: t.v,
      };
      assert.throws(
        () => advance(recorder, { ...t, ...rows }, 0),
        new ShapeError("Cannot use stop_tokens [2, 4]: expected [2, 8]"),
      );
    },
  );
});
