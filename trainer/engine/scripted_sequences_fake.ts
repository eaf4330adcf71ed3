/** The open sequences of a scripted engine: their tokens, pages and generations. */

import { ServiceError } from "../../core/errors.ts";
import { PAGE_TOKENS } from "../../core/kv_pages.ts";
import type { TokenMask } from "../sampler/token_mask.ts";
import type { EngineMethods } from "../protocol/protocol.ts";
import { PageTable } from "./scripted_pages_fake.ts";

export interface ScriptedGeneration {
  request: EngineMethods["sequence_generate"]["request"];
  /** The scripted tokens that remain; null: the model samples. */
  left: number[] | null;
  hangs: boolean;
  error: ServiceError | null;
  mask: TokenMask | null;
  sampled: number;
}

export interface ScriptedSequence {
  adapter: string | null;
  tokens: number[];
  pages: number[];
  /** The number of generations started. */
  turns: number;
  running: ScriptedGeneration | null;
}

export class ScriptedSequences {
  readonly #open = new Map<number, ScriptedSequence>();
  readonly pages: PageTable;
  readonly counters = { prefill_tokens: 0, prefill_steps: 0 };

  constructor(readonly limits: { vocabulary: number; max_context: number; kv_tokens: number }) {
    this.pages = new PageTable(Math.ceil(limits.kv_tokens / PAGE_TOKENS));
  }

  entries(): [number, ScriptedSequence][] {
    return [...this.#open];
  }

  get(number: number): ScriptedSequence {
    const sequence = this.#open.get(number);
    if (!sequence) throw new ServiceError("config_invalid", `Cannot find sequence ${number}: it is not open`);
    return sequence;
  }

  /** Returns an open sequence. @throws {ServiceError} `conflict` while it generates. */
  idle(number: number): ScriptedSequence {
    const sequence = this.get(number);
    if (!sequence.running) return sequence;
    throw new ServiceError("conflict", `Cannot touch sequence ${number}: it is generating`);
  }

  open({ sequence: number, adapter, parent, tokens }: EngineMethods["sequence_open"]["request"]): void {
    if (this.#open.has(number)) {
      throw new ServiceError("conflict", `Cannot open sequence ${number}: it is open`);
    }
    const from = parent === null ? null : this.idle(parent);
    if (from && from.adapter !== adapter) {
      throw new ServiceError("conflict", `Cannot open sequence ${number}: its parent has another adapter`);
    }
    const sequence: ScriptedSequence = {
      adapter,
      tokens: [...from?.tokens ?? []],
      pages: from ? this.pages.share(from.pages, from.tokens.length) : [],
      turns: 0,
      running: null,
    };
    try {
      if (sequence.tokens.length + tokens.length === 0) {
        throw new ServiceError("config_invalid", `Cannot open sequence ${number}: it has no token`);
      }
      this.append(sequence, tokens);
    } catch (error) {
      this.pages.resize(sequence.pages, 0);
      throw error;
    }
    this.#countPrefill(tokens);
    this.#open.set(number, sequence);
  }

  extend(number: number, tokens: readonly number[]): void {
    this.append(this.idle(number), tokens);
    this.#countPrefill(tokens);
  }

  #countPrefill({ length }: readonly number[]): void {
    this.counters.prefill_tokens += length;
    this.counters.prefill_steps++;
  }

  truncate(number: number, length: number): void {
    const { tokens, pages } = this.idle(number);
    if (length < 1 || length > tokens.length) {
      const reason = `it has ${tokens.length} tokens`;
      throw new ServiceError("config_invalid", `Cannot truncate sequence ${number} to ${length}: ${reason}`);
    }
    tokens.length = length;
    this.pages.resize(pages, length);
  }

  close(number: number): void {
    this.pages.resize(this.get(number).pages, 0);
    this.#open.delete(number);
  }

  append(sequence: ScriptedSequence, tokens: readonly number[]): void {
    const { vocabulary, max_context } = this.limits;
    const length = sequence.tokens.length + tokens.length;
    const strange = tokens.find((token) => !(token >= 0 && token < vocabulary));
    if (length > max_context || strange !== undefined) {
      const reason = strange === undefined
        ? `${length} tokens exceed max_context ${max_context}`
        : `the vocabulary has no token ${strange}`;
      throw new ServiceError("config_invalid", `Cannot extend a sequence: ${reason}`);
    }
    this.pages.resize(sequence.pages, length);
    sequence.tokens.push(...tokens);
  }
}
