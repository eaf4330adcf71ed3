/** The batches for tests and benches of the paged kernels. */

import { PAGE_TOKENS } from "../../core/kv_pages.ts";
import { ceilDiv } from "../shape.ts";
import { NO_SLOT } from "./kv_pages.ts";

export interface PagedCase {
  name: string;
  heads: number;
  kv_heads: number;
  width: number;
  dtype: "f32" | "f16";
  /** For each slot's sequence: its length, and the number of first pages that it shares with an earlier slot, or slot 0. */
  sequences: readonly { tokens: number; shared_pages: number; with?: number }[];
  /** Rows: a slot (null: inactive) and a position. */
  rows: readonly (readonly [slot: number | null, position: number])[];
  /** As many as the longest sequence needs, or more. */
  slot_pages?: number;
  window?: number;
  soft_cap?: number;
}

/** Sequences that share nothing. */
const own = (...tokens: number[]) => tokens.map((n) => ({ tokens: n, shared_pages: 0 }));

/** A group of sequences that share a prompt of complete pages. */
const group = (shared_pages: number, ...tokens: number[]) =>
  tokens.map((n) => ({ tokens: n, shared_pages: Math.min(shared_pages, Math.floor(n / PAGE_TOKENS)) }));

/** The rows of a slot's tokens from one position up to another. */
const chunk = (slot: number, begin: number, end: number): [number, number][] =>
  Array.from({ length: end - begin }, (_, i) => [slot, begin + i]);

/** A row for the last token of each sequence. */
const lastTokens = (sequences: PagedCase["sequences"]): [number, number][] =>
  sequences.map(({ tokens }, slot) => [slot, tokens - 1]);

const shape = (heads: number, kv_heads: number, width: number, dtype: "f32" | "f16") => ({
  heads,
  kv_heads,
  width,
  dtype,
});

const SMALL_GROUP = group(2, 65, 70, 64, 96, 97, 104, 66, 128, 200, 65, 90);

export const CASES: readonly PagedCase[] = [
  { name: "one token", ...shape(1, 1, 4, "f32"), sequences: own(1), rows: [[0, 0]] },
  {
    name: "a decode of a group on two pages, some inactive, seven heads to one",
    ...shape(14, 2, 16, "f32"),
    sequences: SMALL_GROUP,
    rows: lastTokens(SMALL_GROUP).map(([slot, at]) => slot % 4 === 2 ? [null, at] : [slot, at]),
  },
  {
    name: "prefills that meet inside a subgroup",
    ...shape(2, 2, 8, "f16"),
    sequences: own(67, 40),
    rows: [...chunk(0, 30, 67), ...chunk(1, 0, 40)],
  },
  {
    name: "a prefill beside a decode, the tiny model's heads",
    ...shape(8, 2, 64, "f32"),
    sequences: own(150, 33, 32, 31),
    rows: [...chunk(0, 60, 73), [1, 32], [2, 31], [3, 30], [0, 149]],
  },
  {
    name: "seven heads of 64 to one, all inactive but one",
    ...shape(7, 1, 64, "f32"),
    sequences: own(45),
    rows: [[null, 0], [0, 44], [null, 7]],
  },
  {
    name: "heads of 256",
    ...shape(3, 1, 256, "f16"),
    sequences: group(1, 40, 50),
    rows: [[0, 39], [1, 49]],
  },
  {
    name: "heads of 128",
    ...shape(4, 2, 128, "f16"),
    sequences: group(1, 40, 50, 70),
    rows: [[0, 39], [1, 49], [2, 69]],
  },
  {
    // The first eight rows share all of their pages; of the others, slots 1 and 2 continue in their own pages.
    name: "a row that ends with the prompt beside a longer and an inactive one",
    ...shape(2, 1, 8, "f32"),
    sequences: group(2, 64, 100, 101),
    rows: [[0, 63], [null, 0], [1, 99], [1, 70], [0, 40], [0, 3], [1, 98], [null, 9], [1, 99], [0, 63], [
      2,
      100,
    ]],
  },
  {
    name: "a width of three vectors",
    ...shape(3, 1, 12, "f32"),
    sequences: own(20, 9),
    rows: [[1, 8], [0, 19], [1, 3]],
  },
  {
    // Windows inside the shared pages, across their end and after it.
    name: "a decode of a group on two pages with a window",
    ...shape(14, 2, 16, "f32"),
    sequences: SMALL_GROUP,
    rows: lastTokens(SMALL_GROUP).map(([slot, at]) => slot % 4 === 2 ? [null, at] : [slot, at]),
    window: 33,
  },
  {
    name: "prefills with a window and a small cap",
    ...shape(2, 2, 8, "f16"),
    sequences: own(300, 40),
    rows: [...chunk(0, 0, 20), ...chunk(0, 180, 211), [0, 299], ...chunk(1, 0, 40)],
    ...{ window: 40, soft_cap: 0.5 },
  },
  {
    name: "more tokens than are summed at once",
    ...shape(2, 1, 8, "f32"),
    sequences: own(700, 300),
    rows: [...chunk(0, 500, 530), [1, 299], [0, 699], [0, 255], [0, 256], [0, 511]],
  },
  {
    name: "a window of one",
    ...shape(2, 1, 8, "f32"),
    sequences: group(1, 40, 150),
    rows: [[0, 0], [0, 39], [1, 31], [1, 32], [1, 149]],
    window: 1,
  },
];

/** Two groups with prompts of their own, one of which ends inside a page and a split, and sequences that share nothing. */
const TWO_GROUPS = [
  ...own(20, 300),
  { tokens: 301, shared_pages: 0 },
  ...[577, 305, 320, 512, 513, 299, 288, 301, 640].map((tokens) => ({ tokens, shared_pages: 9, with: 2 })),
  { tokens: 90, shared_pages: 0 },
  ...[70, 64, 800].map((tokens) => ({ tokens, shared_pages: 2, with: 12 })),
];

/** Decodes of rows that share pages, for GPUs. */
export const SHARING_CASES: readonly PagedCase[] = [
  {
    name: "two groups beside rows that share nothing, seven heads to one",
    ...shape(14, 2, 16, "f32"),
    sequences: TWO_GROUPS,
    rows: lastTokens(TWO_GROUPS).map(([slot, at]) => slot === 2 || slot === 7 ? [null, at] : [slot, at]),
  },
  {
    name: "two groups with a window and a cap",
    ...shape(6, 2, 64, "f16"),
    sequences: TWO_GROUPS,
    rows: lastTokens(TWO_GROUPS),
    ...{ window: 150, soft_cap: 0.5 },
  },
  {
    name: "a group of few tokens, heads of 128",
    ...shape(4, 1, 128, "f16"),
    sequences: SMALL_GROUP,
    rows: lastTokens(SMALL_GROUP),
  },
  {
    // As many splits as do not fit into the scratch tensor at once.
    name: "a group whose sums are computed in parts, heads of 256",
    ...shape(16, 2, 256, "f32"),
    sequences: SMALL_GROUP,
    rows: lastTokens(SMALL_GROUP),
    slot_pages: 2200,
  },
];

/** Decodes of the tiny model: groups of eight on a prompt of 320 tokens, or as many independent sequences. */
export function decodeCase(rows: number, shared: boolean): PagedCase {
  const sequences = Array.from({ length: rows }, (_, slot) => ({
    tokens: 400 + slot * 7 % 60,
    shared_pages: shared ? 10 : 0,
  }));
  const name = `decode of ${rows} rows, ${shared ? "prompt shared" : "nothing shared"}`;
  return { name, ...shape(8, 2, 64, "f32"), sequences, rows: lastTokens(sequences) };
}

/** A prefill of one sequence. */
export function prefillCase(rows: number): PagedCase {
  return {
    name: `prefill of ${rows} rows`,
    ...shape(8, 2, 64, "f32"),
    sequences: own(rows),
    rows: chunk(0, 0, rows),
  };
}

/**
 * A case's page table, slots and positions. Pages are assigned backwards, so that no page's position equals its number.
 */
export function layPages({ sequences, rows, slot_pages: least = 0 }: PagedCase) {
  const slot_pages = Math.max(least, ...sequences.map(({ tokens }) => ceilDiv(tokens, PAGE_TOKENS) + 1));
  const counts = sequences.map(({ tokens, shared_pages }) => ceilDiv(tokens, PAGE_TOKENS) - shared_pages);
  const pages = counts.reduce((sum, n) => sum + n, 0) + (sequences[0]!.shared_pages) + 1;
  // Unused entries point at page 0, which is empty.
  const page_table = new Uint32Array(sequences.length * slot_pages);
  let next = pages - 1;
  sequences.forEach(({ tokens, shared_pages, with: other = 0 }, slot) => {
    for (let p = 0; p < ceilDiv(tokens, PAGE_TOKENS); p++) {
      const taken = slot > 0 && p < shared_pages;
      page_table[slot * slot_pages + p] = taken ? page_table[other * slot_pages + p]! : next--;
    }
  });
  const slots = Uint32Array.from(rows, ([slot]) => slot ?? NO_SLOT);
  const positions = Uint32Array.from(rows, ([, position]) => position);
  return { pages, slot_pages, page_table, slots, positions };
}
