/** A sequence and what it waits for. */

import type { SamplingRequest } from "../protocol/protocol.ts";
import type { DeviceAdapter } from "../model/device_adapter.ts";
import type { TokenMask } from "./token_mask.ts";

/** A running generation. */
export interface Generation {
  /** The number of tokens that may still be sampled. */
  remaining: number;
  /** The most tokens of a block. */
  block_tokens: number;
  stop_tokens: number[];
  sampling: SamplingRequest;
  mask: TokenMask | null;
  is_cancelled: boolean;
}

/** Whether the host has nothing to do between two tokens of a generation. */
export function isFree({ mask }: Generation): boolean {
  return mask === null || mask.is_static;
}

/** A page whose first tokens are copied before its owner writes after them. */
export interface PageCopy {
  from: number;
  to: number;
  tokens: number;
}

/** All fields belong to the batcher. */
export interface Sequence {
  /** The client's id. */
  readonly id: number;
  /** Null for the base model. */
  readonly adapter: DeviceAdapter | null;
  /** Row of the page table. */
  readonly slot: number;
  tokens: number[];
  /** The number of tokens with keys and values in the cache. */
  processed: number;
  /** The last token was sampled and has not been processed by the model yet. */
  has_pending_sample: boolean;
  /** In order; the page of token t is `pages[t / 32]`. */
  pages: number[];
  /** Pages that its generation may still need: they are kept free for it. */
  promised_pages: number;
  /** The page table on the device differs from `pages`. */
  is_dirty: boolean;
  copies: PageCopy[];
  /** The row of the hidden state after the last processed token; null when there is no usable one. Children may share it. */
  hidden: number | null;
  /** A parent that must have processed this many tokens before this sequence runs. */
  waits_for: { parent: Sequence; length: number } | null;
  generation: Generation | null;
  /** A block that has not been read has a row of it: on the device its state is ahead of `tokens`. */
  is_sampling: boolean;
  /** Children that wait for this one. */
  waiting_children: number;
  is_closed: boolean;
}

/** Tokens of a sequence to process: `count` from the first unprocessed one. */
export interface PrefillPart {
  sequence: Sequence;
  count: number;
}

/** Whether it goes on sampling: all that is left to process is the token that it sampled last. */
export function isPending(sequence: Sequence): boolean {
  const { generation, has_pending_sample, waits_for, processed, tokens } = sequence;
  return generation !== null && has_pending_sample && waits_for === null && processed === tokens.length - 1;
}

/** Whether tokens must and can be processed. A sampled last token waits until something follows it. */
export function isPrefillReady(sequence: Sequence): boolean {
  const { tokens, processed, waits_for, has_pending_sample, generation, waiting_children } = sequence;
  if (waits_for !== null || processed === tokens.length) return false;
  const is_wanted = generation !== null || waiting_children > 0;
  return is_wanted || !has_pending_sample || processed < tokens.length - 1;
}

/** Whether it can sample its next token from its hidden state. */
export function isDecodeReady({ generation, waits_for, processed, tokens }: Sequence): boolean {
  return generation !== null && waits_for === null && processed === tokens.length;
}
