/** A sequence and what it waits for. */

import type { SamplingRequest } from "../engine/protocol.ts";
import type { DeviceAdapter } from "../model/device_adapter.ts";
import type { TokenMask } from "./token_mask.ts";

/** A running generation. */
export interface Generation {
  /** Tokens that may still be drawn. */
  remaining: number;
  stop_tokens: number[];
  sampling: SamplingRequest;
  mask: TokenMask | null;
  is_cancelled: boolean;
}

/** A page whose first tokens are copied before its owner writes behind them. */
export interface PageCopy {
  from: number;
  to: number;
  tokens: number;
}

/** All fields are the batcher's. */
export interface Sequence {
  /** The client's name of it. */
  readonly id: number;
  /** Null is the base model. */
  readonly adapter: DeviceAdapter | null;
  /** Row of the page table. */
  readonly slot: number;
  tokens: number[];
  /** Tokens whose keys and values lie in the cache. */
  processed: number;
  /** The last token was drawn and has not gone through the model yet. */
  is_drawn_pending: boolean;
  /** In order; the page of token t is `pages[t / 32]`. */
  pages: number[];
  /** The page table on the device differs from `pages`. */
  is_dirty: boolean;
  copies: PageCopy[];
  /** Row of the hidden states: that behind the last processed token; null while there is none of use. */
  hidden: number | null;
  /** A parent that must have processed so many tokens before this sequence runs. */
  waits_for: { parent: Sequence; length: number } | null;
  generation: Generation | null;
  /** Children that wait for this one. */
  waiting_children: number;
  is_closed: boolean;
}

/** Tokens must go through the model, and can. A drawn last token waits until something follows it. */
export function isPrefillReady(sequence: Sequence): boolean {
  const { tokens, processed, waits_for, is_drawn_pending, generation, waiting_children } = sequence;
  if (waits_for !== null || processed === tokens.length) return false;
  const is_wanted = generation !== null || waiting_children > 0;
  return is_wanted || !is_drawn_pending || processed < tokens.length - 1;
}

/** Ready to draw its next token. */
export function isDecodeReady({ generation, waits_for, processed, tokens }: Sequence): boolean {
  return generation !== null && waits_for === null && processed === tokens.length;
}
