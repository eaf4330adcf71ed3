/**
 * Continuous batching: sequences come and go between blocks. Each step first runs given tokens (prefill), or else
 * decodes a block for all generating sequences. A step runs one adapter; adapters take turns.
 */

import { errorRecord, ServiceError } from "../../core/errors.ts";
import { MAX_STOP_TOKENS } from "../../kernels/sample_token/advance.ts";
import type { ErrorRecord } from "../../core/errors.ts";
import type { EngineCounters, EngineMethods, GenerationStop } from "../protocol/protocol.ts";
import type { DeviceAdapter } from "../model/device_adapter.ts";
import type { PrefillPart, SampledTokens, Sampler } from "./sampler.ts";
import { isDecodeReady, isPrefillReady, type Sequence } from "./sequence.ts";
import type { Grammars } from "../grammar/grammars.ts";
import { SequenceStore } from "./sequence_store.ts";
import { createTokenMask, type TokenMask } from "./token_mask.ts";

/** New tokens of a generation; the last block has the reason of its end. */
export interface SampledBlock extends SampledTokens {
  stop: GenerationStop | null;
}

/** Receives the events of a generation. */
export interface SequenceListener {
  sampled(sequence: Sequence, block: SampledBlock): void;
  failed(sequence: Sequence, error: ErrorRecord): void;
}

/** The counters of the engine that the batcher counts. */
type BatcherCounters = Pick<
  EngineCounters,
  "prefill_tokens" | "decode_tokens" | "decode_steps" | "decode_rows"
>;

type GenerateRequest = EngineMethods["sequence_generate"]["request"];

export interface BatcherOptions {
  max_context: number;
  grammars?: Grammars;
  /** Called before the device works for sequences: others free the memory that they share with the cache. */
  claimMemory?: () => void;
}

/** A step: sequences that run given tokens, or else sequences that sample; and those that move to the queue's end. */
interface Step {
  prefill: Sequence[];
  decode: Sequence[];
  moved: Sequence[];
}

export class Batcher {
  readonly counters: BatcherCounters = {
    prefill_tokens: 0,
    decode_tokens: 0,
    decode_steps: 0,
    decode_rows: 0,
  };
  readonly store: SequenceStore;
  #waiters: (() => void)[] = [];

  constructor(
    readonly sampler: Sampler,
    readonly options: BatcherOptions,
    readonly listener: SequenceListener,
  ) {
    this.store = new SequenceStore(sampler.options);
  }

  /** The number of open sequences of an adapter. */
  live(adapter: DeviceAdapter): number {
    return [...this.store.sequences].filter((sequence) => sequence.adapter === adapter && !sequence.is_closed)
      .length;
  }

  /** @throws {ServiceError} When the tokens are invalid, or there is no room for them. */
  open(
    request: { id: number; adapter: DeviceAdapter | null; parent: Sequence | null; tokens: number[] },
  ): Sequence {
    const { id, adapter, tokens } = request;
    const given = request.parent?.tokens ?? [];
    if (request.parent && request.parent.adapter !== adapter) {
      throw new ServiceError("conflict", `Cannot open sequence ${id}: its parent runs another adapter`);
    }
    if (given.length + tokens.length === 0) {
      throw new ServiceError("config_invalid", `Cannot open sequence ${id} without tokens`);
    }
    this.#expectTokens(id, tokens, given.length);
    return this.store.open({ ...request, given });
  }

  /** @throws {ServiceError} While the sequence generates, or without room. */
  extend(sequence: Sequence, tokens: number[]): void {
    this.#expectIdle(sequence, "extend");
    this.#expectTokens(sequence.id, tokens, sequence.tokens.length);
    this.store.grow(sequence, sequence.tokens.length + tokens.length);
    sequence.tokens.push(...tokens);
  }

  /** Waits for a parent that has not run yet, and for children that still need the removed tokens. */
  async truncate(sequence: Sequence, length: number): Promise<void> {
    this.#expectIdle(sequence, "truncate");
    if (!Number.isInteger(length) || length < 1 || length > sequence.tokens.length) {
      throw new ServiceError(
        "config_invalid",
        `Cannot truncate sequence ${sequence.id} to ${length}: it has ${sequence.tokens.length} tokens`,
      );
    }
    while (sequence.waiting_children > 0 || sequence.waits_for) await this.settled();
    this.#expectIdle(sequence, "truncate");
    if (length === sequence.tokens.length) return;
    sequence.tokens.length = length;
    sequence.has_pending_sample = false;
    // The state after the new last token is gone, so that token runs again.
    if (sequence.processed >= length) this.store.rewind(sequence, length - 1);
    this.store.trimPages(sequence);
  }

  /** Starts generating. @throws {ServiceError} When it already generates, or cannot. */
  generate(sequence: Sequence, request: GenerateRequest): void {
    this.#expectIdle(sequence, "generate from");
    const { block_steps } = this.sampler.options;
    const { stop_tokens, sampling, block_tokens = block_steps } = request, { id } = sequence;
    const room = this.options.max_context - sequence.tokens.length;
    const refuse = (reason: string) => {
      throw new ServiceError("config_invalid", `Cannot generate from sequence ${id}: ${reason}`);
    };
    if (!(request.max_tokens >= 1)) refuse(`max_tokens is ${request.max_tokens}, below 1`);
    if (!(block_tokens >= 1)) refuse(`block_tokens is ${block_tokens}, below 1`);
    if (room < 1) refuse(`it has ${sequence.tokens.length} tokens, and the context holds no more`);
    if (stop_tokens.length > MAX_STOP_TOKENS) {
      refuse(`${stop_tokens.length} stop tokens are above ${MAX_STOP_TOKENS}`);
    }
    if (!(sampling.temperature >= 0)) refuse(`the temperature ${sampling.temperature} is below 0`);
    if (!(sampling.top_p > 0 && sampling.top_p <= 1)) refuse(`top_p ${sampling.top_p} is not in (0, 1]`);
    const remaining = Math.min(request.max_tokens, room);
    const { vocabulary } = this.sampler.model.shape, { grammars = null } = this.options;
    const mask = sampling.mask && createTokenMask(sampling.mask, { vocabulary, stop_tokens, grammars });
    this.store.promise(sequence, sequence.tokens.length + remaining);
    sequence.generation = { remaining, block_tokens, stop_tokens, sampling, mask, is_cancelled: false };
  }

  /** Ends a generation at the next block; resolves when it has ended. */
  async cancel(sequence: Sequence): Promise<void> {
    if (sequence.generation) sequence.generation.is_cancelled = true;
    while (sequence.generation) await this.settled();
  }

  /** Cancels its generation and releases everything; its pages stay for children that need them. */
  async close(sequence: Sequence): Promise<void> {
    await this.cancel(sequence);
    if (sequence.is_closed) return;
    sequence.is_closed = true;
    if (sequence.waiting_children === 0) this.store.release(sequence);
  }

  /** Runs one prefill or one block. @returns False when there was nothing to do. */
  async step(): Promise<boolean> {
    for (const sequence of this.store.sequences) {
      if (sequence.generation?.is_cancelled) {
        this.#end(sequence, { tokens: [], logprobs: [], stop: "cancelled" });
      }
      this.store.unblock(sequence);
    }
    const { sampler, store } = this;
    let { prefill, decode, moved } = this.#next();
    // Requests that arrive while the cache grows may change what is ready.
    while (!sampler.holdsPages(store.pages.extent)) {
      await sampler.growPages(store.pages.extent);
      ({ prefill, decode, moved } = this.#next());
    }
    for (const sequence of moved) {
      store.sequences.delete(sequence);
      store.sequences.add(sequence);
    }
    if (prefill.length > 0) this.#prefill(prefill);
    else await this.#decode(decode.sort(byPages).filter((sequence) => this.#hasMask(sequence)));
    this.#settle();
    return prefill.length + decode.length > 0;
  }

  /** The next step: sequences of one kind or none, with pages for it. */
  #next(): Step {
    const { block_steps, max_sequences } = this.sampler.options;
    const given = this.#select(isPrefillReady), sampling = this.#select(isDecodeReady);
    const { chosen, moved } = given.chosen.length > 0 ? given : sampling;
    const prefill = given.chosen, decode = prefill.length > 0 ? [] : chosen.slice(0, max_sequences);
    for (const sequence of decode) {
      const { remaining } = sequence.generation!;
      this.store.grow(sequence, sequence.tokens.length + Math.min(remaining, block_steps));
    }
    if (chosen.length > 0) this.options.claimMemory?.();
    return { prefill, decode, moved };
  }

  /** Frees the memory of the cache for others, if no sequence has pages. */
  releaseMemory(): void {
    if (this.store.pages.used === 0) this.sampler.release();
  }

  /** Fails all generations, because the device is gone or has no more memory. */
  fail(error: unknown): void {
    for (const sequence of this.store.sequences) {
      if (!sequence.generation) continue;
      sequence.generation = null;
      this.store.trimPages(sequence);
      this.listener.failed(sequence, errorRecord(error));
    }
    this.#settle();
  }

  /** Resolves after the next step. */
  settled(): Promise<void> {
    return new Promise((resolve) => this.#waiters.push(resolve));
  }

  #settle(): void {
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const resolve of waiters) resolve();
  }

  /**
   * The ready sequences of one adapter: that of the first in the queue. They move to the end if sequences of others are
   * ready.
   */
  #select(isReady: (sequence: Sequence) => boolean): { chosen: Sequence[]; moved: Sequence[] } {
    const ready = [...this.store.sequences].filter(isReady);
    const chosen = ready.filter(({ adapter }) => adapter === ready[0]!.adapter);
    return { chosen, moved: chosen.length < ready.length ? chosen : [] };
  }

  #prefill(sequences: readonly Sequence[]): void {
    const parts: PrefillPart[] = [];
    let room = this.sampler.options.max_prefill;
    for (const sequence of sequences) {
      const count = Math.min(room, sequence.tokens.length - sequence.processed);
      if (count === 0) break;
      this.store.ownHidden(sequence);
      parts.push({ sequence, count });
      room -= count;
    }
    const held = parts.flatMap(({ sequence }) => sequence.copies);
    try {
      this.sampler.prefill(sequences[0]!.adapter, parts);
    } finally {
      for (const { from } of held) this.store.pages.release(from);
    }
    for (const { sequence, count } of parts) {
      this.counters.prefill_tokens += count - (sequence.has_pending_sample ? 1 : 0);
      sequence.has_pending_sample = false;
      sequence.processed += count;
    }
  }

  /** Whether the mask of a sequence can be computed. Otherwise its generation fails. */
  #hasMask(sequence: Sequence): boolean {
    return this.#tryMask(sequence, (mask) => mask.bits());
  }

  /** Uses a sequence's mask, if it has one. A failure ends its generation, and no other. */
  #tryMask(sequence: Sequence, use: (mask: TokenMask) => void): boolean {
    const { mask } = sequence.generation!;
    try {
      if (mask) use(mask);
      return true;
    } catch (error) {
      sequence.generation = null;
      this.store.trimPages(sequence);
      this.listener.failed(sequence, errorRecord(error));
      return false;
    }
  }

  async #decode(sequences: readonly Sequence[]): Promise<void> {
    if (sequences.length === 0) return;
    const { block_steps } = this.sampler.options;
    const generations = sequences.map((sequence) => sequence.generation!);
    const is_static = generations.every(({ mask }) => mask === null || mask.is_static);
    const longest = Math.max(...generations.map(({ remaining }) => remaining));
    const most = Math.min(block_steps, ...generations.map(({ block_tokens }) => block_tokens));
    const steps = is_static ? Math.min(most, longest) : 1;
    const held = sequences.flatMap((sequence) => sequence.copies);
    const rows = sequences.map((sequence) => {
      const from = sequence.hidden!;
      this.store.ownHidden(sequence);
      return { sequence, from };
    });
    const sampled = await this.sampler.decode(sequences[0]!.adapter, rows, steps).finally(() => {
      for (const { from } of held) this.store.pages.release(from);
    });
    this.counters.decode_steps += steps;
    this.counters.decode_rows += steps * this.sampler.options.max_sequences;
    sequences.forEach((sequence, i) => this.#advance(sequence, sampled[i]!));
  }

  #advance(sequence: Sequence, { tokens, logprobs }: SampledTokens): void {
    const generation = sequence.generation!;
    if (!logprobs.every(Number.isFinite)) return this.#overflow(sequence);
    sequence.tokens.push(...tokens);
    sequence.processed = sequence.tokens.length;
    this.counters.decode_tokens += tokens.length;
    generation.remaining -= tokens.length;
    if (!this.#tryMask(sequence, (mask) => tokens.forEach((token) => mask.advance(token)))) return;
    const stop = generation.stop_tokens.includes(tokens.at(-1)!)
      ? "stop_token"
      : generation.remaining === 0
      ? "max_tokens"
      : null;
    if (stop) {
      // The device stops a row before its last token runs; that token runs when something follows it.
      sequence.processed--;
      sequence.has_pending_sample = true;
      this.store.dropHidden(sequence);
      return this.#end(sequence, { tokens, logprobs, stop });
    }
    if (generation.is_cancelled) return this.#end(sequence, { tokens, logprobs, stop: "cancelled" });
    this.listener.sampled(sequence, { tokens, logprobs, stop: null });
  }

  /** Logits that are not finite: discard everything that was sampled from them. */
  #overflow(sequence: Sequence): void {
    this.store.rewind(sequence, sequence.processed - 1);
    sequence.generation = null;
    this.store.trimPages(sequence);
    this.listener.failed(sequence, {
      code: "internal",
      message: `Cannot sample from sequence ${sequence.id}: the model's logits are not numbers. ` +
        `With model.compute = "f16", activations may be too large for it: set "f32"`,
      details: {},
    });
  }

  #end(sequence: Sequence, block: SampledBlock): void {
    sequence.generation = null;
    this.store.trimPages(sequence);
    this.listener.sampled(sequence, block);
  }

  #expectIdle(sequence: Sequence, verb: string): void {
    if (sequence.generation) {
      throw new ServiceError("conflict", `Cannot ${verb} sequence ${sequence.id} while it generates`);
    }
  }

  #expectTokens(id: number, tokens: readonly number[], before: number): void {
    const { vocabulary } = this.sampler.model.shape, { max_context } = this.options;
    const bad = tokens.findIndex((token) => !Number.isInteger(token) || token < 0 || token >= vocabulary);
    if (bad >= 0) {
      throw new ServiceError(
        "config_invalid",
        `Cannot give token ${tokens[bad]} to sequence ${id}: the vocabulary has ${vocabulary}`,
      );
    }
    if (before + tokens.length > max_context) {
      throw new ServiceError(
        "config_invalid",
        `Cannot give ${tokens.length} tokens to sequence ${id} of ${before}: the context holds ${max_context}`,
      );
    }
  }
}

/**
 * Orders sequences by their first differing page; where one has no more pages, it comes first. So rows that share pages
 * are adjacent, and attention reads a shared page once.
 */
export function byPages(a: Pick<Sequence, "pages">, b: Pick<Sequence, "pages">): number {
  let i = 0;
  while (i < a.pages.length && a.pages[i] === b.pages[i]) i++;
  return (a.pages[i] ?? -1) - (b.pages[i] ?? -1);
}
