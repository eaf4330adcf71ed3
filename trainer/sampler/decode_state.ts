/** The decoding state of rows on the device, uploaded once for one block or several that follow each other. */

import { planShared, type SharedRows } from "../../kernels/kv_pages/attention_paged.ts";
import { NO_SLOT } from "../../kernels/kv_pages/kv_pages.ts";
import { MAX_STOP_TOKENS, NONE } from "../../kernels/sample_token/advance.ts";
import { ceilDiv } from "../../kernels/shape.ts";
import { type Allocator, type Tensor, view } from "../../kernels/tensor.ts";
import type { ModelShape } from "../model/model_shape.ts";
import { type Generation, isFree, type Sequence } from "./sequence.ts";

/** A temperature below this would divide logits out of range; it has the same effect as 0. */
const MIN_TEMPERATURE = 1e-6;

/** The temperature that a row is sampled with. */
export function effectiveTemperature(temperature: number): number {
  return temperature < MIN_TEMPERATURE ? 0 : temperature;
}

const WORDS = [
  "token",
  "position",
  "token_position",
  "remaining",
  "slots",
  "top_k",
  "hidden",
  "shared_tokens",
] as const;
const FLOATS = ["logprob", "temperature", "top_p", "cutoff"] as const;
type Name = typeof WORDS[number] | typeof FLOATS[number];

/** `[B]` each, except rng_key `[B, 2]`, stop_tokens `[B, 8]` and mask `[B, V / 32]`; null where no row needs it. */
export type DecodeViews = Record<Exclude<Name, "cutoff">, Tensor> & {
  rng_key: Tensor;
  stop_tokens: Tensor;
  mask: Tensor | null;
  cutoff: Tensor | null;
  /** On GPUs, the rows that share pages: those of their prompts, which do not change while they decode. */
  sharing: SharedRows | null;
};

export class DecodeState {
  readonly #arrays: Record<Name, Tensor>;
  readonly #rng_key: Tensor;
  readonly #stop_tokens: Tensor;
  readonly #mask: Tensor;
  readonly #tiles: Tensor;
  readonly #mask_words: number;
  /** What rows the arrays have; null at first, after {@link empty} and after a failure. */
  #uploaded: { views: DecodeViews; generations: readonly Generation[] } | null = null;

  /** @param sizes batch: the most rows; shares: whether rows that share pages are found. */
  constructor(
    readonly allocator: Allocator,
    readonly shape: ModelShape,
    readonly sizes: { batch: number; shares: boolean },
  ) {
    const { batch } = sizes;
    this.#mask_words = ceilDiv(shape.vocabulary, 32);
    this.#arrays = Object.fromEntries([
      ...WORDS.map((name) => [name, allocator.create("sampler", [batch], "u32")]),
      ...FLOATS.map((name) => [name, allocator.create("sampler", [batch])]),
    ]);
    this.#rng_key = allocator.create("sampler", [batch, 2], "u32");
    this.#stop_tokens = allocator.create("sampler", [batch, MAX_STOP_TOKENS], "u32");
    this.#mask = allocator.create("sampler", [batch, this.#mask_words], "u32");
    this.#tiles = allocator.create("sampler", [batch, 2], "u32");
  }

  /**
   * Uploads generating sequences, padded to `rows` with rows without one. Of generations that go on from a block that has been
   * read the device has the state already, but for masks and the places of hidden states.
   *
   * @returns The arrays at this length.
   */
  upload(sequences: readonly Sequence[], rows: number): DecodeViews {
    const generations = sequences.map((sequence) => sequence.generation!), last = this.#uploaded;
    this.#uploaded = null;
    const goes_on = last !== null && last.views.token.shape[0] === rows &&
      last.generations.length === generations.length &&
      last.generations.every((generation, i) => generation === generations[i]);
    const views = goes_on ? last.views : this.#uploadRows(sequences, rows);
    if (sequences.some(({ hidden }) => hidden !== null)) {
      this.#words("hidden", sequences.map(({ hidden }) => hidden!), { rows, fill: NONE });
    }
    if (views.mask && !(goes_on && generations.every(isFree))) {
      const all = new Uint32Array(this.#mask_words).fill(NONE);
      this.#block(this.#mask, generations.map(({ mask }) => mask?.bits() ?? all), { rows, fill: NONE });
    }
    this.#uploaded = { views, generations };
    return views;
  }

  #words(
    name: typeof WORDS[number],
    of: readonly number[],
    { rows, fill }: { rows: number; fill: number },
  ): void {
    this.allocator.write(this.#arrays[name], Uint32Array.from({ length: rows }, (_, i) => of[i] ?? fill));
  }

  #uploadRows(sequences: readonly Sequence[], rows: number): DecodeViews {
    const generations = sequences.map((sequence) => sequence.generation!);
    const samplings = generations.map((generation) => generation.sampling);
    const a = this.#arrays;
    const words = (name: typeof WORDS[number], of: readonly number[], fill: number) =>
      this.#words(name, of, { rows, fill });
    const floats = (tensor: Tensor, of: readonly number[]) =>
      this.allocator.write(tensor, Float32Array.from({ length: rows }, (_, i) => of[i] ?? 1));
    words("token", sequences.map(({ tokens }) => tokens.at(-1)!), 0);
    words("token_position", sequences.map(({ tokens }) => tokens.length - 1), 0);
    words("position", sequences.map(({ tokens }) => tokens.length), 0);
    words("remaining", generations.map((generation) => generation.remaining), 1);
    words("slots", sequences.map((sequence) => sequence.slot), NO_SLOT);
    words("top_k", samplings.map((sampling) => sampling.top_k), 0);
    floats(
      a.temperature,
      samplings.map(({ temperature }) => effectiveTemperature(temperature)),
    );
    floats(a.top_p, samplings.map((sampling) => sampling.top_p));
    const stops = generations.map(({ stop_tokens }) =>
      Array.from({ length: MAX_STOP_TOKENS }, (_, i) => stop_tokens[i] ?? NONE)
    );
    this.#block(this.#rng_key, samplings.map((sampling) => sampling.rng_key), { rows, fill: 0 });
    this.#block(this.#stop_tokens, stops, { rows, fill: NONE });
    const has_mask = generations.some((generation) => generation.mask !== null);
    const has_cutoff = samplings.some((s) => s.top_k > 0 || s.top_p < 1);
    return this.#views(rows, { has_mask, has_cutoff, sharing: this.#uploadSharing(sequences, rows) });
  }

  #uploadSharing(sequences: readonly Sequence[], rows: number): SharedRows | null {
    const { heads, kv_heads, head_width: width } = this.shape;
    const pages = Array.from({ length: rows }, (_, i) => sequences[i]?.pages ?? null);
    const plan = this.sizes.shares ? planShared(pages, { heads, kv_heads, width }) : null;
    if (!plan) return null;
    const tiles = view(this.#tiles, [plan.tiles.length, 2]);
    const shared_tokens = view(this.#arrays.shared_tokens, [rows]);
    this.allocator.write(tiles, Uint32Array.from(plan.tiles.flat()));
    this.allocator.write(shared_tokens, Uint32Array.from(plan.shared_tokens));
    return { tiles, shared_tokens, range: plan.range };
  }

  /** Takes a row's sequence away: it samples nothing more. */
  empty(row: number): void {
    this.#uploaded = null;
    this.allocator.write(this.#arrays.slots, Uint32Array.of(NONE), 4 * row);
  }

  /** Writes a list of rows of equal length. */
  #block(
    tensor: Tensor,
    of: readonly ArrayLike<number>[],
    { rows, fill }: { rows: number; fill: number },
  ): void {
    const width = tensor.shape[1]!;
    const values = new Uint32Array(rows * width).fill(fill);
    of.forEach((row, i) => values.set(row, i * width));
    this.allocator.write(tensor, values);
  }

  #views(
    rows: number,
    { has_mask, has_cutoff, sharing }: { has_mask: boolean; has_cutoff: boolean; sharing: SharedRows | null },
  ): DecodeViews {
    const { cutoff, ...arrays } = Object.fromEntries(
      Object.entries(this.#arrays).map(([name, tensor]) => [name, view(tensor, [rows])]),
    ) as Record<Name, Tensor>;
    return {
      ...arrays,
      rng_key: view(this.#rng_key, [rows, 2]),
      stop_tokens: view(this.#stop_tokens, [rows, MAX_STOP_TOKENS]),
      mask: has_mask ? view(this.#mask, [rows, this.#mask_words]) : null,
      cutoff: has_cutoff ? cutoff : null,
      sharing,
    };
  }
}
