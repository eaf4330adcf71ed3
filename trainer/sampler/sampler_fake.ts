/**
 * A fake of the device's part of sampling: pages hold token ids in place of keys and values, and a state is the list of
 * tokens before it. Whatever a row reads must match its sequence.
 */

import { deepEqual, equal, ok } from "node:assert/strict";
import { PAGE_TOKENS } from "../../core/kv_pages.ts";
import type { DeviceAdapter } from "../model/device_adapter.ts";
import type { DecodeRow } from "./decode_state.ts";
import type { PrefillPart, SampledTokens, Sampler, SamplerOptions } from "./sampler.ts";
import type { Sequence } from "./sequence.ts";

/** A recorded call of the fake. */
export interface FakeCall {
  type: "prefill" | "decode";
  adapter: DeviceAdapter | null;
  /** The ids of the sequences, and the tokens of each. */
  sequences: number[];
  counts: number[];
}

/** The token that follows some tokens: an arbitrary function of all of them. */
export function nextToken(tokens: readonly number[], vocabulary: number): number {
  return tokens.reduce((hash, token) => (Math.imul(hash, 31) + token + 7) >>> 0, 17) % vocabulary;
}

export class FakeSampler {
  readonly calls: FakeCall[] = [];
  readonly model: { shape: { vocabulary: number } };
  #pages: (number | null)[][] = [];
  readonly #states: (string | null)[];

  constructor(readonly options: SamplerOptions, vocabulary: number) {
    this.model = { shape: { vocabulary } };
    this.#states = new Array(2 * options.slots).fill(null);
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
    ok(parts.reduce((sum, { count }) => sum + count, 0) <= this.options.max_prefill);
    this.#copyPages(parts.map(({ sequence }) => sequence));
    // A layer writes all rows before any of them attends.
    for (const { sequence, count } of parts) {
      for (let i = 0; i < count; i++) this.#write(sequence, sequence.processed + i);
    }
    for (const { sequence, count } of parts) {
      const end = sequence.processed + count;
      this.#expectReadable(sequence, end);
      this.#states[sequence.hidden!] = String(sequence.tokens.slice(0, end));
    }
  }

  decode(adapter: DeviceAdapter | null, rows: readonly DecodeRow[], steps: number): Promise<SampledTokens[]> {
    this.#record("decode", adapter, rows.map(({ sequence }) => ({ sequence, count: steps })));
    ok(rows.length <= this.options.max_sequences && steps <= this.options.block_steps);
    this.#copyPages(rows.map(({ sequence }) => sequence));
    for (const { sequence, from } of rows) {
      equal(
        this.#states[from],
        String(sequence.tokens),
        `sequence ${sequence.id} samples from its own state`,
      );
    }
    return Promise.resolve(rows.map(({ sequence }) => this.#sample(sequence, steps)));
  }

  #sample(sequence: Sequence, steps: number): SampledTokens {
    const { remaining, stop_tokens } = sequence.generation!, tokens = [...sequence.tokens];
    const sampled: SampledTokens = { tokens: [], logprobs: [] };
    for (let step = 0; step < steps; step++) {
      const token = nextToken(tokens, this.model.shape.vocabulary);
      sampled.tokens.push(token);
      sampled.logprobs.push(-1);
      tokens.push(token);
      // A row that ends does not run its last token.
      if (stop_tokens.includes(token) || sampled.tokens.length === remaining) return sampled;
      this.#write({ ...sequence, tokens }, tokens.length - 1);
      this.#expectReadable({ ...sequence, tokens }, tokens.length);
    }
    this.#states[sequence.hidden!] = String(tokens);
    return sampled;
  }

  #record(
    type: FakeCall["type"],
    adapter: DeviceAdapter | null,
    rows: { sequence: Sequence; count: number }[],
  ): void {
    ok(rows.every(({ sequence }) => sequence.adapter === adapter), "one adapter runs at a time");
    const states = rows.map(({ sequence }) => sequence.hidden);
    equal(new Set(states).size, rows.length, "every row leaves its state in a place of its own");
    this.calls.push({
      ...{ type, adapter },
      sequences: rows.map(({ sequence }) => sequence.id),
      counts: rows.map(({ count }) => count),
    });
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

  #write({ pages, tokens }: Sequence, position: number): void {
    this.#pages[pages[Math.floor(position / PAGE_TOKENS)]!]![position % PAGE_TOKENS] = tokens[position]!;
  }

  #expectReadable({ id, pages, tokens }: Sequence, length: number): void {
    const read = Array.from(
      { length },
      (_, i) => this.#pages[pages[Math.floor(i / PAGE_TOKENS)]!]![i % PAGE_TOKENS],
    );
    deepEqual(read, tokens.slice(0, length), `sequence ${id} reads its own tokens`);
  }
}
