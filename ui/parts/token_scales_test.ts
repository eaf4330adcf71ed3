import assert from "node:assert/strict";
import type { TrajectoryToken } from "../../api/types.ts";
import {
  differenceOf,
  type Layer,
  layerOf,
  LAYERS,
  niceBound,
  probabilityOf,
  stepOf,
} from "./token_scales.ts";

const NONE = { sampler_logprob: null, trainer_logprob: null, advantage: null, ratio: null, clipped: null };

function token(values: Partial<TrajectoryToken>): TrajectoryToken {
  return { id: 1, text: "a", origin: "model", trained: true, ...NONE, ...values };
}

/** The legend of a layer as `class: text (count)`. */
const legend = (layer: Layer, tokens: TrajectoryToken[]) =>
  LAYERS[layer].scaleFor(tokens).legend.map(({ class_name, text, count }) =>
    `${class_name}: ${text} (${count})`
  );

Deno.test("a probability is e to the sampler's log-probability, a difference sampler minus trainer", () => {
  assert.equal(probabilityOf(token({ sampler_logprob: Math.log(0.25) })), 0.25);
  assert.equal(differenceOf(token({ sampler_logprob: -1, trainer_logprob: -1.5 })), 0.5);
  assert.deepEqual([probabilityOf(token({})), differenceOf(token({ sampler_logprob: -1 }))], [null, null]);
});

Deno.test("a bound is 1, 2 or 5 times a power of ten", () => {
  assert.deepEqual([0, 0.7, 1, 1.1, 2.5, 5.01, 0.0003, 40].map(niceBound), [
    ...[0, 1, 1, 2, 5, 10, 0.0005, 50],
  ]);
  assert.equal(niceBound(0.001), 0.001);
});

Deno.test("seven steps span −bound to bound, and 0 is in the middle one", () => {
  const values = [-10, -6.1, -6, -3.1, -1.1, -1, 0, 1, 1.1, 3, 3.1, 6.1, 10];
  assert.deepEqual(values.map((value) => stepOf(value, 10)), [0, 0, 1, 1, 2, 3, 3, 3, 4, 4, 5, 6, 6]);
  assert.equal(stepOf(0, 0), 3);
});

Deno.test("a layer around a middle has a legend with numbers, and tokens without a value are told apart", () => {
  const tokens = [token({ ratio: 0.3 }), token({ ratio: 1 }), token({ ratio: 1.65 }), token({ ratio: null })];
  assert.deepEqual(legend("ratio", tokens), [
    "tone-div-0: 0 to 0.4 (1)",
    "tone-div-1: 0.4 to 0.7 (0)",
    "tone-div-2: 0.7 to 0.9 (0)",
    "tone-div-3: 0.9 to 1.1 (1)",
    "tone-div-4: 1.1 to 1.3 (0)",
    "tone-div-5: 1.3 to 1.6 (0)",
    "tone-div-6: 1.6 to 2 (1)",
    "tone-none: no value (1)",
  ]);
  const { classOf } = LAYERS.ratio.scaleFor(tokens);
  assert.deepEqual(tokens.map(classOf), ["tone-div-0", "tone-div-3", "tone-div-6", "tone-none"]);
});

Deno.test("equal values have one colour, and values that nobody recorded are not drawn as 0", () => {
  assert.deepEqual(legend("ratio", [token({ ratio: 1 }), token({ ratio: 1 })]), ["tone-div-3: all 1 (2)"]);
  assert.deepEqual(legend("advantage", [token({}), token({})]), ["tone-none: not recorded (2)"]);
});

Deno.test("rare tokens have the first step of probability", () => {
  const at = (probability: number) => token({ sampler_logprob: Math.log(probability) });
  const tokens = [0.001, 0.05, 0.2, 0.4, 0.6, 0.8, 1].map(at);
  assert.deepEqual(tokens.map(LAYERS.probability.scaleFor(tokens).classOf), [
    ...[0, 1, 2, 3, 4, 5, 6].map((step) => `tone-seq-${step}`),
  ]);
});

Deno.test("categories are counted in their order", () => {
  const tokens = [token({ origin: "prompt", trained: false }), token({ clipped: 1 }), token({ clipped: -1 })];
  assert.deepEqual(legend("origin", tokens).map((entry) => entry.split(": ")[1]), [
    ...["prompt (1)", "model (2)", "tool result (0)", "forced into the turn (0)"],
  ]);
  assert.deepEqual(legend("trained", tokens), [
    ...["tone-trained-yes: trained on (2)", "tone-trained-no: context only (1)"],
  ]);
  assert.deepEqual(legend("clipped", tokens).map((entry) => entry.match(/\d/)![0]), ["1", "0", "1", "1"]);
});

Deno.test("an unknown layer is the origin", () => {
  assert.deepEqual([layerOf("ratio"), layerOf("x"), layerOf("constructor"), layerOf(null)], [
    ...["ratio", "origin", "origin", "origin"],
  ]);
});
