/**
 * The device's part of sampling. A pass runs given tokens through the model. A block samples K tokens for each of its rows
 * without the host, and is read back once.
 */

import { attentionPaged, type PagedOptions } from "../../kernels/kv_pages/attention_paged.ts";
import { kvCopyPage, kvPlaces, kvWrite } from "../../kernels/kv_pages/kv_pages.ts";
import { blocksReads } from "../../kernels/readback.ts";
import { gatherRows, scatterRows } from "../../kernels/rows/rows.ts";
import { advance, sampledTokens } from "../../kernels/sample_token/advance.ts";
import { samplePartials, sampleToken, topCutoff } from "../../kernels/sample_token/sample_token.ts";
import { roundUp } from "../../kernels/shape.ts";
import { type Allocator, type DType, type Tensor, view } from "../../kernels/tensor.ts";
import { deviceForm } from "../../kernels/variant.ts";
import { Activations } from "../model/activations.ts";
import { type DeviceAdapter, LEAST_PADDED_RANK } from "../model/device_adapter.ts";
import { hiddenToLogits } from "../model/output_head.ts";
import {
  type AttentionTensors,
  forward,
  forwardToLastLayer,
  lastLayer,
  type Model,
} from "../model/transformer.ts";
import { DecodeState, type DecodeViews } from "./decode_state.ts";
import { GivenTokens } from "./given_tokens.ts";
import { KvCache } from "./kv_cache.ts";
import type { PageCopy, PrefillPart, Sequence } from "./sequence.ts";

export interface SamplerOptions {
  /** Rows of a decode step. */
  max_sequences: number;
  /** The most tokens of a pass with given ones. */
  max_prefill: number;
  /** Rows of the page table. */
  slots: number;
  /** Pages of a slot. */
  slot_pages: number;
  /** All pages. */
  pages: number;
  kv: "f32" | "f16";
  /** The most steps of a block. */
  block_steps: number;
}

/** What {@link Sampler.start} runs. */
export interface StartedStep {
  /** Tokens that run before the block, in one pass: given ones, and pending ones of rows. */
  given: readonly PrefillPart[];
  /** What samples: all from their hidden states, or all after their pending tokens, which the block runs. */
  rows: readonly Sequence[];
  /** Whether the block runs pending tokens. */
  goes_on: boolean;
  steps: number;
}

/** The tokens that a block sampled for a row, up to its end. */
export interface SampledTokens {
  tokens: number[];
  logprobs: number[];
}

/** A block that the device has been given. */
export interface DecodeBlock {
  readonly adapter: DeviceAdapter | null;
  /** Rows with a sequence, and rows with padding. */
  readonly count: number;
  readonly rows: number;
  readonly state: DecodeViews;
  /** No row has more tokens after the block. */
  readonly tokens: number;
  /** What its rows sampled. @throws {ServiceError} When the device has failed. */
  readonly sampled: Promise<SampledTokens[]>;
}

/** A pass that is recorded for each step of a block. */
interface TokenPass {
  record(): void;
  /** The hidden states `[B, C]` that it computes; null before it was recorded. */
  hidden: Tensor | null;
}

/** Blocks that the device has been given and that have not been read, at most. */
const BLOCKS = 2;

/** Larger decode batches are padded to a multiple of this, so that there are few batch shapes. */
const ROW_STEP = 8;

/** Rows of small batches: products have a form for each of them. */
const FEW_ROWS = [1, 4];

/** A pass over as many given tokens is submitted to a GPU layer by layer. */
const LONG_PASS_ROWS = 512;

/** The fewest rows that nobody reads for which the last layer computes only keys and values. */
const LEAST_SAVED_ROWS = 32;

/** The rows of a batch with padding. */
function paddedRows(rows: number): number {
  return FEW_ROWS.find((most) => rows <= most) ?? roundUp(rows, ROW_STEP);
}

export class Sampler {
  readonly #cache: KvCache;
  readonly #page_table: Tensor;
  /** `[slots, C]`: the hidden states after each sequence's last token. */
  readonly #hidden: Tensor;
  readonly #state: DecodeState;
  readonly #out: Tensor;
  readonly #given: GivenTokens;
  readonly #copies: Tensor;
  readonly #attention_state: Tensor;
  /** Of the rows of a step, see {@link kvPlaces}. */
  readonly #places: Tensor;
  readonly #last: Tensor;
  readonly #normed: Tensor;
  readonly #rstd: Tensor;
  readonly #logits: Tensor;
  readonly #partials: Tensor;
  readonly #capacity: number;
  /** By adapter, this for none, and by rows. */
  #passes = new WeakMap<object, Map<number, TokenPass>>();
  /** How the last block whose rows went on is recorded again, without the copies of pages before it. */
  #last_block: { state: DecodeViews; steps: number; record: () => void } | null = null;
  readonly allocator: Allocator;
  #activations: Activations | null = null;

  constructor(outer: Allocator, readonly model: Model, readonly options: SamplerOptions) {
    const allocator = this.allocator = outer.scope();
    const { shape } = model, { slots, slot_pages, block_steps } = options;
    const batch = roundUp(options.max_sequences, ROW_STEP);
    const rows = this.#capacity = Math.max(batch, options.max_prefill);
    const create = (dims: readonly number[], dtype: DType = "f32") =>
      allocator.create("sampler", dims, dtype);
    this.#cache = new KvCache(allocator, model, options);
    this.#page_table = create([slots, slot_pages], "u32");
    this.#hidden = create([slots, shape.width]);
    const shares = deviceForm(model.recorder.gpu) === "tiles";
    this.#state = new DecodeState(allocator, shape, { batch, shares });
    this.#out = create([2, block_steps, batch], "u32");
    this.#given = new GivenTokens(allocator, rows);
    this.#copies = create([slots, 3], "u32");
    this.#attention_state = create([rows, shape.heads, 2]);
    this.#places = create([rows, 2], "u32");
    this.#last = create([rows, shape.width]);
    this.#normed = create([batch, shape.width]);
    this.#rstd = create([batch]);
    this.#logits = create([batch, shape.vocabulary]);
    this.#partials = create([samplePartials(batch, shape.vocabulary)]);
  }

  /** Runs tokens through the model, without a readback. The caller updates the sequences' states. */
  prefill(adapter: DeviceAdapter | null, parts: readonly PrefillPart[]): void {
    this.#uploadPages(parts.map(({ sequence }) => sequence));
    this.#recordGiven(adapter, parts);
    this.model.recorder.submit();
  }

  /** Starts a block, which samples up to `steps` tokens for each row; it has one readback. */
  start(adapter: DeviceAdapter | null, { given, rows: sequences, goes_on, steps }: StartedStep): DecodeBlock {
    const rows = paddedRows(sequences.length);
    this.#uploadPages([...given.map(({ sequence }) => sequence), ...sequences]);
    if (given.length > 0) this.#recordGiven(adapter, given);
    // A GPU works on it while the block is recorded.
    if (given.length > 0 && this.#submits_steps) this.model.recorder.submit();
    const state = this.#state.upload(sequences, rows);
    const tokens = steps + Math.max(...sequences.map(({ tokens }) => tokens.length));
    const block = { adapter, count: sequences.length, rows, state, tokens };
    return this.#decode(block, { goes_on, steps });
  }

  /**
   * Starts the block after the last one, for the same rows: they go on from their states on the device, so the last one
   * need not have been read. A row that has ended samples nothing.
   *
   * @param sequences By row, with pages for the tokens of both blocks; null: the row stops, whether it has ended or not.
   */
  proceed(block: DecodeBlock, sequences: readonly (Sequence | null)[], steps: number): DecodeBlock {
    this.#uploadPages(sequences.flatMap((sequence) => sequence ?? []));
    for (const [row, sequence] of sequences.entries()) if (!sequence) this.#state.empty(row);
    return this.#decode({ ...block, tokens: block.tokens + steps }, { goes_on: true, steps });
  }

  /** Records a pass over tokens that the host has, and stores the hidden states after each sequence's last one. */
  #recordGiven(adapter: DeviceAdapter | null, parts: readonly PrefillPart[]): void {
    const { recorder, shape } = this.model, given = this.#given.upload(parts), { slots, tokens } = given;
    const options = { adjacent: given.adjacent, slots, tokens };
    const pass = {
      ...this.#pass(adapter, given.rows, options),
      submits_layers: slots.length >= LONG_PASS_ROWS,
    };
    const is_few = slots.length - parts.length < LEAST_SAVED_ROWS,
      x = is_few ? forward(pass) : forwardToLastLayer(pass);
    let last = view(this.#last, [parts.length, shape.width]);
    gatherRows(recorder, { x, index: given.last_rows, y: last });
    if (!is_few) last = lastLayer(this.#pass(adapter, given.last, { tokens }), last);
    scatterRows(recorder, { x: this.#hidden, index: given.hidden, y: last });
  }

  /**
   * Whether a block should be started before the one before it is read: on a GPU, where reads do not block the thread. If
   * they do, the numbers come when both blocks are done. A software adapter computes as long for a row that has ended as
   * for one that goes on.
   */
  get runs_ahead(): boolean {
    const { gpu } = this.model.recorder;
    return !gpu.facts.software && !blocksReads(gpu);
  }

  /**
   * Submits a block. On a software adapter one whose rows go on, for as many steps, repeats the dispatches of the block before.
   *
   * @param goes_on Whether it begins with a pass over the rows' last tokens, not with their hidden states.
   */
  #decode(
    { adapter, count, rows, state, tokens }: Omit<DecodeBlock, "sampled">,
    { goes_on, steps }: { goes_on: boolean; steps: number },
  ): DecodeBlock {
    const { recorder } = this.model, block = { adapter, rows, state, tokens }, last = this.#last_block;
    const out = view(this.#out, [2, steps, rows]);
    if (goes_on && last?.state === state && last.steps === steps) last.record();
    else {
      const record = recorder.repeatable(() => this.#recordBlock(block, { goes_on, steps, out }));
      record();
      // On a GPU the dispatches depend on the number of tokens.
      const is_kept = goes_on && deviceForm(recorder.gpu) === "lanes";
      this.#last_block = is_kept ? { state, steps, record } : null;
    }
    const sampled = recorder.submitAndRead([out]).then(([bytes]) =>
      Array.from({ length: count }, (_, row) => sampledTokens(bytes!, { row, rows, steps }))
    );
    // Whoever waits for it learns of a failure; if nobody does any more, it is no failure of this thread.
    sampled.catch(() => {});
    return { ...block, count, sampled };
  }

  /** Records a block. @param out Overwritten, `[2, steps, rows]`. */
  #recordBlock(
    { adapter, rows, state, tokens }: Omit<DecodeBlock, "sampled" | "count">,
    { goes_on, steps, out }: { goes_on: boolean; steps: number; out: Tensor },
  ): void {
    const { recorder, shape } = this.model;
    const cut = (tensor: Tensor, ...rest: number[]) => view(tensor, [rows, ...rest]);
    const logits = cut(this.#logits, shape.vocabulary), normed = cut(this.#normed, shape.width);
    const partials = this.#partials, { cutoff } = state;
    const pass = this.#passOver({ adapter, rows, state, tokens });
    let last = cut(this.#last, shape.width);
    if (!goes_on) gatherRows(recorder, { x: this.#hidden, index: state.hidden, y: last });
    for (let step = 0; step < steps; step++) {
      if (step > 0 || goes_on) {
        pass.record();
        last = pass.hidden!;
      }
      hiddenToLogits(this.model, { hidden: last, normed, rstd: cut(this.#rstd), logits });
      if (cutoff) topCutoff(recorder, { ...state, logits, cutoff });
      sampleToken(recorder, { ...state, logits, partials });
      advance(recorder, { ...state, out }, step);
      if (this.#submits_steps && step < steps - 1) recorder.submit();
    }
  }

  /**
   * Whether what is recorded is submitted at once: a GPU works on it while the next step is recorded. On a software adapter a
   * submit waits for the one before, and costs half a millisecond of the processors that the adapter computes on.
   */
  get #submits_steps(): boolean {
    return deviceForm(this.model.recorder.gpu) === "tiles";
  }

  /**
   * The pass over the tokens that rows have sampled. All steps of a block run the same dispatches on the state that lies on
   * the device. On a software adapter those of later blocks do too; on a GPU they depend on the number of tokens, and on
   * which pages are shared.
   */
  #passOver({ adapter, rows, state, tokens }: Omit<DecodeBlock, "sampled" | "count">): TokenPass {
    const by_rows = this.#passes.get(adapter ?? this) ?? new Map<number, TokenPass>();
    this.#passes.set(adapter ?? this, by_rows);
    const known = by_rows.get(rows), { recorder } = this.model, { sharing } = state;
    if (known) return known;
    const given = { slots: state.slots, positions: state.token_position };
    const pass: TokenPass = {
      hidden: null,
      record: recorder.repeatable(() => {
        pass.hidden = forward({
          ...this.#pass(adapter, given, { tokens, sharing }),
          ids: state.token,
        });
      }),
    };
    if (deviceForm(recorder.gpu) === "lanes") by_rows.set(rows, pass);
    return pass;
  }

  /**
   * Allocates all that steps with adapters of this rank can need, the growth of the cache to its last page included, but for
   * what a GPU has not freed by then; on a software adapter all but the textures of these tensors.
   */
  reserve(padded_rank: number): void {
    this.#reserve(padded_rank);
    this.model.recorder.reserveReadback([this.#out], BLOCKS);
    this.#cache.reserve();
  }

  /** Whether the cache has room for pages 0 to `count - 1`. */
  holdsPages(count: number): boolean {
    return count <= this.#cache.capacity;
  }

  /** Makes room for pages 0 to `count - 1`; see {@link KvCache.grow}. */
  async growPages(count: number): Promise<void> {
    await this.#cache.grow(count);
  }

  /** Frees the cache and the activations, for others to use. No sequence may have pages. The next step allocates them. */
  release(): void {
    if (!this.#activations) return this.#cache.free();
    this.#passes = new WeakMap();
    this.#last_block = null;
    this.#cache.free();
    this.#activations.allocator.destroy();
    this.#activations = null;
    this.model.recorder.forgetAll();
  }

  free(): void {
    this.allocator.destroy();
    this.model.recorder.forgetAll();
  }

  /** A pass over rows at these positions of these slots, whose first dispatch is recorded at once. */
  #pass<Rows extends { positions: Tensor; slots: Tensor }>(
    adapter: DeviceAdapter | null,
    given: Rows,
    options: PagedOptions,
  ) {
    const { positions, slots } = given, [rows = 0] = positions.shape;
    const { recorder, shape } = this.model, page_table = this.#page_table;
    const at = { page_table, slots, positions };
    const state = view(this.#attention_state, [rows, shape.heads, 2]);
    const places = view(this.#places, [rows, 2]), layerPages = (layer: number) => this.#cache.layer(layer);
    kvPlaces(recorder, { ...at, places }, shape.kv_heads);
    const write = (layer: number, tensors: { k: Tensor; v: Tensor }) =>
      kvWrite(recorder, { ...tensors, ...at, ...layerPages(layer) });
    const attend = (layer: number, { q, o, rules }: AttentionTensors) =>
      attentionPaged(recorder, { q, o, ...at, state, ...layerPages(layer) }, rules, options);
    const activations = this.#reserve(adapter?.layout.padded_rank ?? LEAST_PADDED_RANK);
    const pages = { places, layer: layerPages, write };
    return { ...given, model: this.model, adapter, rows, activations, pages, attend };
  }

  #reserve(padded_rank: number): Activations {
    if (this.#activations && this.#activations.options.padded_rank >= padded_rank) return this.#activations;
    if (this.#activations) {
      this.#activations.allocator.destroy();
      this.model.recorder.forgetAll();
    }
    const options = { rows: this.#capacity, kept: "nothing" as const, padded_rank, component: "sampler" };
    return this.#activations = new Activations(this.allocator.scope(), this.model.shape, options);
  }

  /** Uploads changed rows of the page table, and copies pages that a sequence shares in part. */
  #uploadPages(sequences: readonly Sequence[]): void {
    const copies: PageCopy[] = [];
    const { slot_pages } = this.options;
    for (const sequence of sequences) {
      if (sequence.is_dirty) {
        const row = Uint32Array.from({ length: slot_pages }, (_, i) => sequence.pages[i] ?? 0);
        this.allocator.write(this.#page_table, row, 4 * slot_pages * sequence.slot);
        sequence.is_dirty = false;
      }
      copies.push(...sequence.copies);
      sequence.copies = [];
    }
    if (copies.length === 0) return;
    const list = view(this.#copies, [copies.length, 3]);
    this.allocator.write(
      list,
      Uint32Array.from(copies.flatMap(({ from, to, tokens }) => [from, to, tokens])),
    );
    for (let layer = 0; layer < this.model.shape.layers.length; layer++) {
      kvCopyPage(this.model.recorder, { copies: list, ...this.#cache.layer(layer) });
    }
  }
}
