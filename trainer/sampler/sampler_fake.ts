/**
 * A fake of the device's part of sampling: pages hold token ids in place of keys and values, and a state is the list of
 * tokens before it. Whatever a row reads must match its sequence.
 */

import { deepEqual, equal, ok } from "node:assert/strict";
import { PAGE_TOKENS } from "../../core/kv_pages.ts";
import type { DeviceAdapter } from "../model/device_adapter.ts";
import type { SampledTokens, Sampler, SamplerOptions, StartedStep } from "./sampler.ts";
import { isPending, type PrefillPart, type Sequence } from "./sequence.ts";

/** A recorded call of the fake. */
export interface FakeCall {
  type: "prefill" | "decode";
  adapter: DeviceAdapter | null;
  /** The ids of the sequences, and the tokens that run or are sampled for each. */
  sequences: number[];
  counts: number[];
}

/** The token that follows some tokens: an arbitrary function of all of them. */
export function nextToken(tokens: readonly number[], vocabulary: number): number {
  return tokens.reduce((hash, token) => (Math.imul(hash, 31) + token + 7) >>> 0, 17) % vocabulary;
}

/** A row on the device. */
interface FakeRow {
  id: number;
  tokens: number[];
  /** How many tokens the pages have. */
  processed: number;
  /** 0: it has ended. */
  remaining: number;
  stop_tokens: readonly number[];
}

interface FakeBlock {
  adapter: DeviceAdapter | null;
  states: (FakeRow | null)[];
  sampled: Promise<SampledTokens[]>;
}

export class FakeSampler {
  /** Whether blocks may follow each other although rows can end. */
  goes_on = false;
  /** Ids of sequences whose logits are no numbers. */
  readonly spoiled = new Set<number>();
  readonly calls: FakeCall[] = [];
  readonly model: { shape: { vocabulary: number } };
  #pages: (number | null)[][] = [];
  readonly #states: string[];

  constructor(readonly options: SamplerOptions, vocabulary: number) {
    this.model = { shape: { vocabulary } };
    this.#states = new Array(options.slots).fill("");
  }

  /** As the batcher's sampler. */
  asSampler(): Sampler {
    return this as unknown as Sampler;
  }

  holdsPages(count: number): boolean {
    return count <= this.#pages.length;
  }

  /** Makes room for exactly these pages; there is none at first. */
  growPages(count: number): Promise<void> {
    ok(count <= this.options.pages);
    while (this.#pages.length < count) this.#pages.push(new Array(PAGE_TOKENS).fill(null));
    return Promise.resolve();
  }

  release(): void {
    this.#pages = [];
  }

  prefill(adapter: DeviceAdapter | null, parts: readonly PrefillPart[]): void {
    this.#record("prefill", adapter, parts.map(({ sequence, count }) => ({ sequence, count })));
    const places = parts.map(({ sequence }) => sequence.hidden);
    equal(new Set(places).size, parts.length, "every sequence leaves its state in a place of its own");
    const { max_prefill, max_sequences } = this.options;
    const pending = parts.filter(({ sequence }) => isPending(sequence));
    ok(pending.length <= max_sequences);
    ok(parts.reduce((sum, { count }) => sum + count, 0) <= Math.max(max_prefill, max_sequences));
    this.#copyPages(parts.map(({ sequence }) => sequence));
    // A layer writes all rows before any of them attends.
    for (const { sequence, count } of parts) {
      for (let i = 0; i < count; i++) this.#write(sequence, sequence.processed + i);
    }
    for (const { sequence, count } of parts) {
      const end = sequence.processed + count;
      this.#expectReadable(sequence, end);
      this.#states[sequence.hidden!] = this.#stateOf(sequence.id, sequence.tokens.slice(0, end));
    }
  }

  start(
    adapter: DeviceAdapter | null,
    { given, rows: sequences, goes_on, steps }: StartedStep,
  ): FakeBlock {
    if (given.length > 0) this.prefill(adapter, given);
    this.#copyPages(sequences);
    const rows = sequences.map(({ id, tokens, hidden, generation }): FakeRow => {
      if (goes_on) equal(hidden, null, "all rows sample from their states, or none does");
      else {
        const state = this.#stateOf(id, tokens);
        equal(this.#states[hidden!], state, `sequence ${id} samples from its own state`);
      }
      const { remaining, stop_tokens } = generation!;
      const processed = goes_on ? tokens.length - 1 : tokens.length;
      return { id, tokens: [...tokens], processed, remaining, stop_tokens };
    });
    return this.#block(adapter, { sequences, rows }, steps);
  }

  /** As on a device, rows go on from what they are there, with the pages that their sequences have now. */
  proceed(block: FakeBlock, sequences: readonly (Sequence | null)[], steps: number): FakeBlock {
    this.#copyPages(sequences.flatMap((sequence) => sequence ?? []));
    const rows = block.states.map((row, i) => sequences[i] ? row : null);
    return this.#block(block.adapter, { sequences, rows }, steps);
  }

  get runs_ahead(): boolean {
    return this.goes_on;
  }

  #block(
    adapter: DeviceAdapter | null,
    { sequences, rows }: { sequences: readonly (Sequence | null)[]; rows: (FakeRow | null)[] },
    steps: number,
  ): FakeBlock {
    const live = sequences.flatMap((sequence) => sequence ?? []);
    this.#record("decode", adapter, live.map((sequence) => ({ sequence, count: steps })));
    ok(sequences.length <= this.options.max_sequences && steps > 0 && steps <= this.options.block_steps);
    const sampled = rows.map((row, i) =>
      row ? this.#sample(row, sequences[i]!, steps) : { tokens: [], logprobs: [] }
    );
    return { adapter, states: rows, sampled: Promise.resolve(sampled) };
  }

  #sample(row: FakeRow, { pages }: Sequence, steps: number): SampledTokens {
    const sampled: SampledTokens = { tokens: [], logprobs: [] }, { tokens } = row;
    for (let step = 0; step < steps && row.remaining > 0; step++) {
      if (row.processed < tokens.length) this.#write({ pages, tokens }, row.processed++);
      this.#expectReadable({ id: row.id, pages, tokens }, tokens.length);
      const token = nextToken(tokens, this.model.shape.vocabulary);
      sampled.tokens.push(token);
      sampled.logprobs.push(this.spoiled.has(row.id) ? NaN : -1);
      tokens.push(token);
      row.remaining = row.stop_tokens.includes(token) ? 0 : row.remaining - 1;
    }
    return sampled;
  }

  #record(
    type: FakeCall["type"],
    adapter: DeviceAdapter | null,
    rows: { sequence: Sequence; count: number }[],
  ): void {
    ok(rows.every(({ sequence }) => sequence.adapter === adapter), "one adapter runs at a time");
    this.calls.push({
      ...{ type, adapter },
      sequences: rows.map(({ sequence }) => sequence.id),
      counts: rows.map(({ count }) => count),
    });
  }

  #stateOf(id: number, tokens: readonly number[]): string {
    return this.spoiled.has(id) ? "spoiled" : String(tokens);
  }

  #copyPages(sequences: readonly Sequence[]): void {
    for (const sequence of sequences) {
      ok(sequence.pages.length <= this.options.slot_pages);
      for (const { from, to, tokens } of sequence.copies) {
        for (let i = 0; i < tokens; i++) this.#pages[to]![i] = this.#pages[from]![i]!;
      }
      sequence.copies = [];
      sequence.is_dirty = false;
    }
  }

  #write({ pages, tokens }: Pick<Sequence, "pages" | "tokens">, position: number): void {
    this.#pages[pages[Math.floor(position / PAGE_TOKENS)]!]![position % PAGE_TOKENS] = tokens[position]!;
  }

  #expectReadable({ id, pages, tokens }: Pick<Sequence, "id" | "pages" | "tokens">, length: number): void {
    const read = Array.from(
      { length },
      (_, i) => this.#pages[pages[Math.floor(i / PAGE_TOKENS)]!]![i % PAGE_TOKENS],
    );
    deepEqual(read, tokens.slice(0, length), `sequence ${id} reads its own tokens`);
  }
}
