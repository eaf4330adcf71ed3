/** Open sequences with their pages, page-table rows and states, and what they share. */

import { ServiceError } from "../../core/errors.ts";
import { PAGE_TOKENS } from "../../core/kv_pages.ts";
import type { DeviceAdapter } from "../model/device_adapter.ts";
import { ReferencePool } from "./kv_pages.ts";
import type { Sequence } from "./sequence.ts";

export interface OpenSequence {
  id: number;
  adapter: DeviceAdapter | null;
  /** Its tokens, `given`, come before `tokens` and are shared. */
  parent: Sequence | null;
  given: readonly number[];
  tokens: readonly number[];
}

export class SequenceStore {
  /** In the order in which they are served. */
  readonly sequences = new Set<Sequence>();
  readonly pages: ReferencePool;
  /** Free pages that are kept for running generations. */
  #promised = 0;
  readonly #slots: ReferencePool;
  readonly #hidden: ReferencePool;

  constructor(sizes: { pages: number; slots: number }) {
    this.pages = new ReferencePool(sizes.pages, "pages of the key/value cache");
    this.#slots = new ReferencePool(sizes.slots, "sequences");
    this.#hidden = new ReferencePool(sizes.slots, "hidden states");
  }

  /** @throws {ServiceError} `out_of_memory` when there is no room. */
  open(request: OpenSequence): Sequence {
    const { id, adapter, given, tokens } = request;
    const { parent, length } = request.parent
      ? { parent: request.parent, length: given.length }
      : this.#longestPrefix(adapter, tokens);
    const full_pages = Math.floor(length / PAGE_TOKENS);
    const sequence: Sequence = {
      id,
      adapter,
      slot: this.#slots.take(),
      tokens: [...given, ...tokens],
      processed: length,
      has_pending_sample: false,
      pages: (parent?.pages ?? []).slice(0, full_pages).map((page) => this.pages.share(page)),
      promised_pages: 0,
      is_dirty: true,
      copies: [],
      hidden: null,
      waits_for: parent && { parent, length },
      generation: null,
      is_sampling: false,
      waiting_children: 0,
      is_closed: false,
    };
    if (parent) parent.waiting_children++;
    this.sequences.add(sequence);
    try {
      this.grow(sequence, sequence.tokens.length);
    } catch (error) {
      this.release(sequence);
      throw error;
    }
    return sequence;
  }

  /** Gives the sequence its own row for its next hidden state. */
  ownHidden(sequence: Sequence): void {
    if (sequence.hidden !== null && this.#hidden.isShared(sequence.hidden)) this.dropHidden(sequence);
    sequence.hidden ??= this.#hidden.take();
  }

  /** After its parent has processed all shared tokens, the child copies the partly shared page and continues. */
  unblock(child: Sequence): void {
    if (!child.waits_for) return;
    const { parent, length } = child.waits_for;
    this.unblock(parent);
    // The tokens of a parent count as processed from the start, even if they still wait for the parent's own parent.
    if (parent.waits_for || parent.processed < length) return;
    const page = Math.floor(length / PAGE_TOKENS), tokens = length % PAGE_TOKENS;
    if (tokens > 0) {
      const own = parent.pages[page]!, pending = parent.copies.find(({ to }) => to === own);
      child.copies.push({ from: this.pages.share(pending?.from ?? own), to: child.pages[page]!, tokens });
    }
    if (child.tokens.length === length) {
      // Without tokens of its own it samples from its parent's state, or runs the last token again if that is gone.
      if (parent.processed === length && parent.hidden !== null) {
        child.hidden = this.#hidden.share(parent.hidden);
      } else this.rewind(child, length - 1);
    }
    this.#unfollow(child);
  }

  #unfollow(child: Sequence): void {
    const { parent } = child.waits_for!;
    child.waits_for = null;
    if (--parent.waiting_children === 0 && parent.is_closed) this.release(parent);
  }

  /** Allocates pages for `length` tokens, or none. */
  grow(sequence: Sequence, length: number): void {
    const needed = Math.ceil(length / PAGE_TOKENS) - sequence.pages.length;
    if (needed <= 0) return;
    const kept = Math.min(needed, sequence.promised_pages);
    this.#expectPages(sequence, needed - kept);
    sequence.promised_pages -= kept;
    this.#promised -= kept;
    for (let i = 0; i < needed; i++) sequence.pages.push(this.pages.take());
    sequence.is_dirty = true;
  }

  /** Keeps pages free that a sequence needs for `length` tokens, so that {@link grow} up to there cannot fail. */
  promise(sequence: Sequence, length: number): void {
    const needed = Math.ceil(length / PAGE_TOKENS) - sequence.pages.length;
    if (needed <= 0) return;
    this.#expectPages(sequence, needed);
    sequence.promised_pages = needed;
    this.#promised += needed;
  }

  #dropPromise(sequence: Sequence): void {
    this.#promised -= sequence.promised_pages;
    sequence.promised_pages = 0;
  }

  #expectPages(sequence: Sequence, needed: number): void {
    const free = this.pages.available - this.#promised;
    if (needed <= free) return;
    throw new ServiceError(
      "out_of_memory",
      `Cannot hold ${needed} more pages of ${PAGE_TOKENS} tokens for sequence ${sequence.id}: ${free} of ` +
        `${this.pages.size} are free. Lower agent.concurrent_rollouts`,
      { pages: this.pages.size },
    );
  }

  /** Goes back to `processed` tokens. A page with other holders is replaced by a copy before it is written. */
  rewind(sequence: Sequence, processed: number): void {
    this.dropHidden(sequence);
    sequence.processed = processed;
    const index = Math.floor(processed / PAGE_TOKENS), from = sequence.pages[index]!;
    if (!this.pages.isShared(from)) return;
    this.#expectPages(sequence, 1);
    const to = this.pages.take(), tokens = processed % PAGE_TOKENS;
    if (tokens > 0) sequence.copies.push({ from, to, tokens });
    else this.pages.release(from);
    sequence.pages[index] = to;
    sequence.is_dirty = true;
  }

  /** Releases the pages after the last token, and those promised to the sequence. */
  trimPages(sequence: Sequence): void {
    this.#dropPromise(sequence);
    const kept = Math.ceil(sequence.tokens.length / PAGE_TOKENS);
    for (const page of sequence.pages.splice(kept)) this.pages.release(page);
    sequence.copies = sequence.copies.filter(({ from, to }) => {
      if (sequence.pages.includes(to)) return true;
      this.pages.release(from);
      return false;
    });
  }

  dropHidden(sequence: Sequence): void {
    if (sequence.hidden !== null) this.#hidden.release(sequence.hidden);
    sequence.hidden = null;
  }

  release(sequence: Sequence): void {
    this.sequences.delete(sequence);
    if (sequence.waits_for) this.#unfollow(sequence);
    for (const { from } of sequence.copies) this.pages.release(from);
    for (const page of sequence.pages) this.pages.release(page);
    sequence.pages = [];
    this.#dropPromise(sequence);
    this.dropHidden(sequence);
    this.#slots.release(sequence.slot);
  }

  /**
   * The open sequence of this adapter that shares the most complete pages from the start, such as a system prompt with
   * its tools. At least one token is left to run, because sampling needs its state.
   */
  #longestPrefix(
    adapter: DeviceAdapter | null,
    tokens: readonly number[],
  ): { parent: Sequence | null; length: number } {
    let best: { parent: Sequence | null; length: number } = { parent: null, length: 0 };
    for (const parent of this.sequences) {
      if (parent.adapter !== adapter || parent.is_closed) continue;
      const limit = Math.min(parent.tokens.length, tokens.length - 1);
      let common = 0;
      while (common < limit && parent.tokens[common] === tokens[common]) common++;
      const length = common - common % PAGE_TOKENS;
      if (length > best.length) best = { parent, length };
    }
    return best;
  }
}
