/** Tokens that the host has, uploaded for one pass. */

import { type Allocator, type Tensor, view } from "../../kernels/tensor.ts";
import type { PrefillPart } from "./sequence.ts";

const WORDS = [
  "ids",
  "positions",
  "slots",
  "last_rows",
  "last_positions",
  "last_slots",
  "hidden",
] as const;

/** Rows of a pass. */
export interface UploadedTokens {
  /** `[N] u32` each. */
  rows: { ids: Tensor; positions: Tensor; slots: Tensor };
  /** By row. */
  slots: readonly number[];
  /** So many rows come before those that are alone in their sequences. */
  adjacent: number;
  /** No row sees more tokens. */
  tokens: number;
  /** `[S] u32` each, of the S sequences: their last rows, the positions and slots of these, and the places of hidden states. */
  last_rows: Tensor;
  last: { positions: Tensor; slots: Tensor };
  hidden: Tensor;
}

export class GivenTokens {
  readonly #arrays: Record<typeof WORDS[number], Tensor>;

  /** @param rows The most rows. */
  constructor(readonly allocator: Allocator, rows: number) {
    const arrays = WORDS.map((name) => [name, allocator.create("sampler", [rows], "u32")]);
    this.#arrays = Object.fromEntries(arrays);
  }

  /** Uploads the parts one after the other. Each sequence has a place for its hidden state. */
  upload(parts: readonly PrefillPart[]): UploadedTokens {
    const ids: number[] = [], positions: number[] = [], slots: number[] = [], last_rows: number[] = [];
    for (const { sequence, count } of parts) {
      for (let i = sequence.processed; i < sequence.processed + count; i++) {
        ids.push(sequence.tokens[i]!);
        positions.push(i);
        slots.push(sequence.slot);
      }
      last_rows.push(ids.length - 1);
    }
    const alone = parts.length - 1 - parts.findLastIndex(({ count }) => count > 1);
    const last_positions = last_rows.map((row) => positions[row]!);
    return {
      rows: {
        ids: this.#write("ids", ids),
        positions: this.#write("positions", positions),
        slots: this.#write("slots", slots),
      },
      ...{ slots, adjacent: ids.length - alone, tokens: 1 + Math.max(...last_positions) },
      last_rows: this.#write("last_rows", last_rows),
      last: {
        positions: this.#write("last_positions", last_positions),
        slots: this.#write("last_slots", last_rows.map((row) => slots[row]!)),
      },
      hidden: this.#write("hidden", parts.map(({ sequence }) => sequence.hidden!)),
    };
  }

  #write(name: typeof WORDS[number], values: readonly number[]): Tensor {
    const cut = view(this.#arrays[name], [values.length]);
    this.allocator.write(cut, Uint32Array.from(values));
    return cut;
  }
}
