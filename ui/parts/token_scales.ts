/** Colours of tokens by a value of theirs: classes of the style sheet, with what each one means. */

import type { TrajectoryToken } from "../../api/types.ts";
import { numberText } from "./format.ts";

/** What tokens can be coloured by. */
export type Layer = "origin" | "trained" | "advantage" | "probability" | "ratio" | "clipped" | "difference";

/** A colour with its meaning. */
export interface LegendEntry {
  /** Of the style sheet. */
  class_name: string;
  text: string;
  /** Tokens that have it. */
  count: number;
}

/** The colours of a layer for the tokens of one attempt. */
export interface Scale {
  classOf(token: TrajectoryToken): string;
  legend: readonly LegendEntry[];
}

/** A token without the value, which only tokens of the model can have. */
const NONE = "tone-none";

/** Where the steps on one side of a middle end, as parts of the bound: finer near the middle, where most values are. */
const EDGES = [0.1, 0.3, 0.6, 1];
/** The number of the middle step, and of all. */
const MIDDLE = EDGES.length - 1, STEPS = 2 * MIDDLE + 1;

/** The upper bounds of the steps of probability, rare ones first. */
const PROBABILITIES = [0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 1];

/** The probability with which the sampler chose a token; null where that is not recorded. */
export function probabilityOf({ sampler_logprob }: TrajectoryToken): number | null {
  return sampler_logprob === null ? null : Math.exp(sampler_logprob);
}

/** Log-probability by the sampler minus that by the trainer; null where one is not recorded. */
export function differenceOf({ sampler_logprob, trainer_logprob }: TrajectoryToken): number | null {
  return sampler_logprob === null || trainer_logprob === null ? null : sampler_logprob - trainer_logprob;
}

/** The smallest of 1, 2 and 5 times a power of ten that a value does not exceed; 0 for 0. */
export function niceBound(value: number): number {
  if (value === 0) return 0;
  const power = 10 ** Math.floor(Math.log10(value));
  // A quotient of 10 is one of rounding, such as that of 0.001 and its power.
  return ([1, 2, 5, 10].find((factor) => value <= factor * power * (1 + 1e-9)) ?? 10) * power;
}

interface Class {
  class_name: string;
  text: string;
}

/** A scale of classes by their number; null: the value is not there. Entries without a token are left out of the legend. */
function scaleOf(
  tokens: readonly TrajectoryToken[],
  classes: readonly Class[],
  numberOf: (token: TrajectoryToken) => number | null,
): Scale {
  const counts = classes.map(() => 0);
  let none = 0;
  for (const token of tokens) {
    const number = numberOf(token);
    if (number === null) none++;
    else counts[number] = counts[number]! + 1;
  }
  const known = classes.map((entry, i) => ({ ...entry, count: counts[i]! }));
  const missing = tokens.length > 0 && none === tokens.length;
  return {
    classOf(token) {
      const number = numberOf(token);
      return number === null ? NONE : classes[number]!.class_name;
    },
    legend: [
      ...(missing ? [] : known),
      ...(none > 0 ? [{ class_name: NONE, text: missing ? "not recorded" : "no value", count: none }] : []),
    ],
  };
}

/** Categories in their order; the class of each is `tone-<layer>-<name>`. */
function categories(
  tokens: readonly TrajectoryToken[],
  { layer, names }: { layer: Layer; names: Readonly<Record<string, string>> },
  nameOf: (token: TrajectoryToken) => string | null,
): Scale {
  const keys = Object.keys(names);
  const classes = keys.map((key) => ({ class_name: `tone-${layer}-${key}`, text: names[key]! }));
  return scaleOf(tokens, classes, (token) => {
    const name = nameOf(token);
    return name === null ? null : keys.indexOf(name);
  });
}

/** Which of the seven steps from −bound to bound a value is in. */
export function stepOf(value: number, bound: number): number {
  if (bound === 0) return MIDDLE;
  const part = Math.abs(value) / bound, away = EDGES.findIndex((edge) => part <= edge);
  return MIDDLE + Math.sign(value) * (away < 0 ? MIDDLE : away);
}

/** Steps on both sides of a middle, up to the largest distance from it. */
function diverging(
  tokens: readonly TrajectoryToken[],
  middle: number,
  valueOf: (token: TrajectoryToken) => number | null,
): Scale {
  const distanceOf = (token: TrajectoryToken) => {
    const value = valueOf(token);
    return value === null ? null : value - middle;
  };
  const largest = tokens.reduce((most, token) => Math.max(most, Math.abs(distanceOf(token) ?? 0)), 0);
  const bound = niceBound(largest);
  if (bound === 0) {
    const only = [{ class_name: `tone-div-${MIDDLE}`, text: `all ${numberText(middle)}` }];
    return scaleOf(tokens, only, (token) => distanceOf(token) === null ? null : 0);
  }
  // The lower edge of a step; that of the one after the last is the bound.
  const edge = (i: number) => {
    const away = i > MIDDLE ? EDGES[i - MIDDLE - 1]! : -EDGES[MIDDLE - i]!;
    return numberText(middle + bound * away);
  };
  const classes = Array.from({ length: STEPS }, (_, i) => ({
    class_name: `tone-div-${i}`,
    text: `${edge(i)} to ${edge(i + 1)}`,
  }));
  return scaleOf(tokens, classes, (token) => {
    const distance = distanceOf(token);
    return distance === null ? null : stepOf(distance, bound);
  });
}

function probabilities(tokens: readonly TrajectoryToken[]): Scale {
  const classes = PROBABILITIES.map((high, i) => ({
    class_name: `tone-seq-${i}`,
    text: `${numberText(PROBABILITIES[i - 1] ?? 0)} to ${numberText(high)}`,
  }));
  return scaleOf(tokens, classes, (token) => {
    const probability = probabilityOf(token);
    if (probability === null) return null;
    const at = PROBABILITIES.findIndex((high) => probability <= high);
    return at < 0 ? PROBABILITIES.length - 1 : at;
  });
}

const ORIGINS = { prompt: "prompt", model: "model", tool: "tool result", forced: "forced into the turn" };
const TRAINED = { yes: "trained on", no: "context only" };
const CLIPS = { below: "clipped below", none: "not clipped", above: "clipped above" };

/** The layers by name, with their label and their colours for some tokens. */
export const LAYERS: Readonly<
  Record<Layer, { label: string; scaleFor(tokens: readonly TrajectoryToken[]): Scale }>
> = {
  origin: {
    label: "Origin",
    scaleFor: (tokens) => categories(tokens, { layer: "origin", names: ORIGINS }, ({ origin }) => origin),
  },
  trained: {
    label: "Trained",
    scaleFor: (tokens) =>
      categories(tokens, { layer: "trained", names: TRAINED }, ({ trained }) => trained ? "yes" : "no"),
  },
  advantage: {
    label: "Advantage",
    scaleFor: (tokens) => diverging(tokens, 0, ({ advantage }) => advantage),
  },
  probability: { label: "Probability", scaleFor: probabilities },
  ratio: { label: "Ratio", scaleFor: (tokens) => diverging(tokens, 1, ({ ratio }) => ratio) },
  clipped: {
    label: "Clipped",
    scaleFor: (tokens) =>
      categories(
        tokens,
        { layer: "clipped", names: CLIPS },
        ({ clipped }) => clipped === null ? null : clipped < 0 ? "below" : clipped > 0 ? "above" : "none",
      ),
  },
  difference: {
    label: "Sampler − trainer",
    scaleFor: (tokens) => diverging(tokens, 0, differenceOf),
  },
};

/** The layer of an address; the origin for another name. */
export function layerOf(name: string | null): Layer {
  return name !== null && Object.hasOwn(LAYERS, name) ? name as Layer : "origin";
}
