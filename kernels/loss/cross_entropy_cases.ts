/** The shapes for cross_entropy's tests and bench. */

export interface CrossEntropyCase {
  name: string;
  rows: number;
  vocabulary: number;
  /** A factor on every logit. */
  scale: number;
  /** Besides the target only every `kept`-th id is kept, the others are −inf; 1 masks none. */
  kept: number;
}

export const CASES: readonly CrossEntropyCase[] = [
  { name: "a vocabulary of one", rows: 1, vocabulary: 1, scale: 1, kept: 1 },
  { name: "narrower than a vector", rows: 3, vocabulary: 3, scale: 1, kept: 1 },
  { name: "odd, rows beyond a workgroup", rows: 67, vocabulary: 131, scale: 3, kept: 1 },
  { name: "a tiny model's", rows: 9, vocabulary: 1024, scale: 2, kept: 1 },
  { name: "logits of ten thousand", rows: 4, vocabulary: 1024, scale: 1e4, kept: 1 },
  { name: "masked but for every 97th", rows: 4, vocabulary: 1028, scale: 2, kept: 97 },
  { name: "all but the target masked", rows: 2, vocabulary: 132, scale: 1, kept: 1000 },
  { name: "a large vocabulary, flat", rows: 2, vocabulary: 151_936, scale: 1e-3, kept: 1 },
];
