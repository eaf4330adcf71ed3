/** The f64 references of the paged kernels, written for clarity. Arrays are row-major. */

import { PAGE_TOKENS } from "../../core/kv_pages.ts";
import { NO_SLOT } from "./kv_pages.ts";

/** The positions of rows and their tokens. */
export interface PagedPlaces {
  kv_heads: number;
  width: number;
  /** `[S, P]`. */
  page_table: ArrayLike<number>;
  slot_pages: number;
  slots: ArrayLike<number>;
  positions: ArrayLike<number>;
}

export interface PagedAttentionInput extends PagedPlaces {
  heads: number;
  scale: number;
  /** A row sees only this many last tokens; null or absent: all up to its own. */
  window?: number | null;
  /** A score s becomes `cap · tanh(s / cap)`; null or absent: no cap. */
  soft_cap?: number | null;
  q: Float64Array;
  k_pages: Float64Array;
  v_pages: Float64Array;
}

/** The index of a token's first key and value number in a layer's pages. */
function tokenAt(places: PagedPlaces, slot: number, token: number, kv: number): number {
  const page = places.page_table[slot * places.slot_pages + Math.floor(token / PAGE_TOKENS)]!;
  return ((page * places.kv_heads + kv) * PAGE_TOKENS + token % PAGE_TOKENS) * places.width;
}

export function attentionPagedReference(input: PagedAttentionInput): Float64Array {
  const { heads, kv_heads, width, scale, q, k_pages, v_pages, slots, positions, window, soft_cap } = input;
  const o = new Float64Array(q.length);
  for (let row = 0; row < slots.length; row++) {
    if (slots[row] === NO_SLOT) continue;
    for (let h = 0; h < heads; h++) {
      const at = (row * heads + h) * width, kv = Math.floor(h * kv_heads / heads);
      const places: number[] = [];
      for (
        let token = Math.max(0, positions[row]! + 1 - (window ?? Infinity));
        token <= positions[row]!;
        token++
      ) {
        places.push(tokenAt(input, slots[row]!, token, kv));
      }
      const scores = places.map((place) => {
        let sum = 0;
        for (let d = 0; d < width; d++) sum += q[at + d]! * k_pages[place + d]!;
        return soft_cap ? soft_cap * Math.tanh(scale * sum / soft_cap) : scale * sum;
      });
      const top = Math.max(...scores);
      const weights = scores.map((s) => Math.exp(s - top));
      const denominator = weights.reduce((sum, x) => sum + x, 0);
      places.forEach((place, t) => {
        for (let d = 0; d < width; d++) o[at + d]! += weights[t]! / denominator * v_pages[place + d]!;
      });
    }
  }
  return o;
}

/** Writes rows `x [N, K, D]` into a copy of a layer's pages. */
export function kvWriteReference(places: PagedPlaces, x: Float64Array, pages: Float64Array): Float64Array {
  const { kv_heads, width, slots, positions } = places;
  const out = pages.slice();
  for (let row = 0; row < slots.length; row++) {
    if (slots[row] === NO_SLOT) continue;
    for (let kv = 0; kv < kv_heads; kv++) {
      const from = (row * kv_heads + kv) * width;
      out.set(x.subarray(from, from + width), tokenAt(places, slots[row]!, positions[row]!, kv));
    }
  }
  return out;
}

/** Copies the first tokens of pages in a copy of a layer's pages; `copies` holds (from, to, tokens). */
export function kvCopyPageReference(
  { kv_heads, width }: { kv_heads: number; width: number },
  copies: readonly (readonly [number, number, number])[],
  pages: Float64Array,
): Float64Array {
  const out = pages.slice();
  for (const [fromPage, toPage, tokens] of copies) {
    for (let kv = 0; kv < kv_heads; kv++) {
      const at = (page: number) => (page * kv_heads + kv) * PAGE_TOKENS * width;
      out.set(pages.subarray(at(fromPage), at(fromPage) + tokens * width), at(toPage));
    }
  }
  return out;
}
