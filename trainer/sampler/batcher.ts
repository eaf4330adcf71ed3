/**
 * Continuous batching: sequences come and go between blocks. A step runs given tokens together with those that were sampled
 * last, in one pass, and then decodes a block for all generating sequences. A step runs one adapter; adapters take turns.
 */

import { errorRecord, ServiceError } from "../../core/errors.ts";
import type { ErrorRecord } from "../../core/errors.ts";
import type { EngineCounters, EngineMethods, GenerationStop } from "../protocol/protocol.ts";
import type { DeviceAdapter } from "../model/device_adapter.ts";
import type { SampledTokens, Sampler } from "./sampler.ts";
import { isFree, isPending, type PrefillPart, type Sequence } from "./sequence.ts";
import { isReady, type PlannedStep, planStep } from "./planned_step.ts";
import { type BlockRow, blockSteps, byPages, isLive, nextRows, type RunningBlock } from "./running_block.ts";
import type { Grammars } from "../grammar/grammars.ts";
import { SequenceStore } from "./sequence_store.ts";
import { checkTokens, newGeneration } from "./check_requests.ts";
import type { TokenMask } from "./token_mask.ts";

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
  "prefill_tokens" | "prefill_steps" | "decode_tokens" | "decode_steps" | "decode_rows"
>;

type GenerateRequest = EngineMethods["sequence_generate"]["request"];

export interface BatcherOptions {
  max_context: number;
  grammars?: Grammars;
  /** Called before the device works for sequences: others free the memory that they share with the cache. */
  claimMemory?: () => void;
}

export class Batcher {
  readonly counters: BatcherCounters = {
    prefill_tokens: 0,
    prefill_steps: 0,
    decode_tokens: 0,
    decode_steps: 0,
    decode_rows: 0,
  };
  readonly store: SequenceStore;
  /** The last block that the device was given, as long as it has not been read. */
  #running: RunningBlock | null = null;
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
    const { options: { block_steps }, model: { shape: { vocabulary } } } = this.sampler;
    const generation = newGeneration(sequence, request, { ...this.options, block_steps, vocabulary });
    this.store.promise(sequence, sequence.tokens.length + generation.remaining);
    sequence.generation = generation;
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

  /** Reads the block that runs; or runs given tokens, a block, or both. @returns False when there was nothing to do. */
  async step(): Promise<boolean> {
    for (const sequence of this.store.sequences) {
      // On the device it goes on until its block has been read.
      if (sequence.generation?.is_cancelled && !sequence.is_sampling) {
        this.#end(sequence, { tokens: [], logprobs: [], stop: "cancelled" });
      }
      this.#unblock(sequence);
    }
    const is_busy = this.#running !== null || await this.#start();
    await this.#finishBlock();
    this.#settle();
    return is_busy;
  }

  /** Where there is no page for the child of another sequence, its generation fails, and no other. */
  #unblock(sequence: Sequence): void {
    try {
      this.store.unblock(sequence);
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      if (sequence.generation) this.#fail(sequence, errorRecord(error));
    }
  }

  /** Starts the next step. @returns False when there is none. */
  async #start(): Promise<boolean> {
    const { sampler, store } = this;
    let planned = this.#plan();
    // Requests that arrive while the cache grows may change what is ready.
    while (!sampler.holdsPages(store.pages.extent)) {
      await sampler.growPages(store.pages.extent);
      planned = this.#plan();
    }
    const { given, rows, moved } = planned;
    for (const sequence of moved) {
      store.sequences.delete(sequence);
      store.sequences.add(sequence);
    }
    if (given.length + rows.length === 0) return false;
    const hasMask = (sequence: Sequence) => this.#tryMask(sequence, (mask) => mask.bits());
    this.#startBlock(given, rows.toSorted(byPages).filter(hasMask));
    return true;
  }

  /** The next step, with pages for it. */
  #plan(): PlannedStep {
    const planned = planStep(this.store.sequences, this.sampler.options);
    for (const sequence of planned.rows) {
      const { remaining } = sequence.generation!;
      const most = Math.min(remaining, this.sampler.options.block_steps);
      this.store.grow(sequence, sequence.tokens.length + most);
    }
    if (planned.given.length + planned.rows.length > 0) this.options.claimMemory?.();
    return planned;
  }

  /** Waits for the block that runs, so that the device does nothing for sequences. */
  async pause(): Promise<void> {
    await this.#finishBlock({ is_last: true });
    this.#settle();
  }

  /** Frees the memory of the cache for others, if no sequence has pages. Call {@link pause} before. */
  releaseMemory(): void {
    if (this.store.pages.used === 0) this.sampler.release();
  }

  /** Fails all generations, because the device is gone or has no more memory. */
  fail(error: unknown): void {
    this.#setRunning(null);
    for (const sequence of this.store.sequences) {
      if (sequence.generation) this.#fail(sequence, errorRecord(error));
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

  /** Uses a sequence's mask, if it has one. A failure ends its generation, and no other. */
  #tryMask(sequence: Sequence, use: (mask: TokenMask) => void): boolean {
    const { mask } = sequence.generation!;
    try {
      if (mask) use(mask);
      return true;
    } catch (error) {
      this.#fail(sequence, errorRecord(error));
      return false;
    }
  }

  /** Runs given tokens, and starts a block of these sequences, if any. */
  #startBlock(given: readonly PrefillPart[], rows: readonly Sequence[]): void {
    // The block runs pending tokens itself where nothing else must run before. Else they come behind the given tokens of the
    // pass, because neighbouring rows of one sequence share loads.
    const goes_on = given.length === 0 && rows.every(isPending);
    const pending = goes_on ? [] : rows.filter(isPending).map((sequence) => ({ sequence, count: 1 }));
    const parts = [...given, ...pending], all = new Set([...parts.map(({ sequence }) => sequence), ...rows]);
    const [first] = all;
    if (!first) return;
    const held = [...all].flatMap(({ copies }) => copies);
    try {
      for (const { sequence } of parts) this.store.ownHidden(sequence);
      if (rows.length === 0) this.sampler.prefill(first.adapter, parts);
      else {
        const generations = rows.map((sequence) => sequence.generation!);
        // Other results of tools often follow soon after the first, so sequences that join do not wait for a long block.
        const is_long = given.length === 0 && generations.every(isFree);
        const steps = is_long ? blockSteps(generations, this.sampler.options) : 1;
        const block = this.sampler.start(first.adapter, { given: parts, rows, goes_on, steps });
        const blockRow = (sequence: Sequence) => ({ sequence, generation: sequence.generation! });
        this.#setRunning({ rows: rows.map(blockRow), steps, block });
      }
    } catch (error) {
      // Nothing has left a state there.
      for (const { sequence } of parts) this.store.dropHidden(sequence);
      throw error;
    } finally {
      for (const { from } of held) this.store.pages.release(from);
    }
    this.#countGiven(parts);
  }

  #countGiven(parts: readonly PrefillPart[]): void {
    const { prefill_tokens } = this.counters;
    for (const { sequence, count } of parts) {
      this.counters.prefill_tokens += count - (sequence.has_pending_sample ? 1 : 0);
      sequence.has_pending_sample = false;
      sequence.processed += count;
    }
    if (this.counters.prefill_tokens > prefill_tokens) this.counters.prefill_steps++;
  }

  /** Reads the running block. The next one of its rows, if nothing speaks against it, is started before. */
  async #finishBlock(options: { is_last: boolean } = { is_last: false }): Promise<void> {
    const running = this.#running;
    if (!running) return;
    const next = options.is_last ? null : this.#following(running);
    const sampled = await running.block.sampled;
    // A failure of the device may have ended all generations meanwhile.
    if (this.#running !== running) return;
    this.#setRunning(next);
    running.rows.forEach((row, i) => {
      // One that ended before sampled nothing more; it may generate anew by now.
      if (isLive(row)) this.#advance(row.sequence, sampled[i]!);
    });
  }

  /** Starts the block after a running one. Null where others wait to join, or the host must decide something before. */
  #following(running: RunningBlock): RunningBlock | null {
    const { steps, block } = running, { sampler, store } = this;
    const isWaiting = (sequence: Sequence) => !sequence.is_sampling && isReady(sequence);
    if ([...store.sequences].some(isWaiting)) return null;
    const rows = sampler.runs_ahead ? nextRows(running) : null;
    if (!rows) return null;
    const generations = rows.flatMap((row) => row ? [row.generation] : []);
    const more = blockSteps(generations, { ...sampler.options, before: steps });
    for (const row of rows) {
      if (!row) continue;
      const { sequence, generation } = row;
      store.grow(sequence, sequence.tokens.length + Math.min(generation.remaining, steps + more));
    }
    if (!sampler.holdsPages(store.pages.extent)) return null;
    const sequences = rows.map((row) => row?.sequence ?? null);
    return { rows, steps: more, block: sampler.proceed(block, sequences, more) };
  }

  #setRunning(block: RunningBlock | null): void {
    const mark = (rows: readonly (BlockRow | null)[] = [], is_sampling: boolean) =>
      rows.forEach((row) => isLive(row) && (row.sequence.is_sampling = is_sampling));
    mark(this.#running?.rows, false);
    mark(block?.rows, true);
    this.#running = block;
    if (!block) return;
    this.counters.decode_steps += block.steps;
    this.counters.decode_rows += block.steps * this.sampler.options.max_sequences;
  }

  #advance(sequence: Sequence, { tokens, logprobs }: SampledTokens): void {
    const generation = sequence.generation!;
    if (!logprobs.every(Number.isFinite)) return this.#overflow(sequence);
    sequence.tokens.push(...tokens);
    // The last one runs when something follows it.
    sequence.processed = sequence.tokens.length - 1;
    sequence.has_pending_sample = true;
    this.store.dropHidden(sequence);
    this.counters.decode_tokens += tokens.length;
    generation.remaining -= tokens.length;
    if (!this.#tryMask(sequence, (mask) => tokens.forEach((token) => mask.advance(token)))) return;
    const stop = generation.stop_tokens.includes(tokens.at(-1)!)
      ? "stop_token"
      : generation.remaining === 0
      ? "max_tokens"
      : null;
    if (stop) return this.#end(sequence, { tokens, logprobs, stop });
    if (generation.is_cancelled && !sequence.is_sampling) {
      return this.#end(sequence, { tokens, logprobs, stop: "cancelled" });
    }
    this.listener.sampled(sequence, { tokens, logprobs, stop: null });
  }

  /** Logits that are not finite: discard everything that was sampled from them. */
  #overflow(sequence: Sequence): void {
    if (sequence.hidden !== null) this.store.rewind(sequence, sequence.processed - 1);
    sequence.is_sampling = false;
    this.#fail(sequence, {
      code: "internal",
      message: `Cannot sample from sequence ${sequence.id}: the model's logits are not numbers. ` +
        `With model.compute = "f16", activations may be too large for it: set "f32"`,
      details: {},
    });
  }

  #fail(sequence: Sequence, error: ErrorRecord): void {
    sequence.generation = null;
    this.store.trimPages(sequence);
    this.listener.failed(sequence, error);
  }

  #end(sequence: Sequence, block: SampledBlock): void {
    sequence.generation = null;
    sequence.is_sampling = false;
    this.store.trimPages(sequence);
    this.listener.sampled(sequence, block);
  }

  #expectIdle(sequence: Sequence, verb: string): void {
    if (sequence.generation) {
      throw new ServiceError("conflict", `Cannot ${verb} sequence ${sequence.id} while it generates`);
    }
  }

  #expectTokens(id: number, tokens: readonly number[], before: number): void {
    const { vocabulary } = this.sampler.model.shape;
    checkTokens({ id, tokens, before }, { ...this.options, vocabulary });
  }
}
