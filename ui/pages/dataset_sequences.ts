/** The tokens of a row by the sequences that training makes of it. */

import type { DatasetToken } from "../../api/types.ts";

/** Tokens that are trained together. */
export interface TokenSequence {
  title: string;
  tokens: DatasetToken[];
}

/** The sequences in their order: the completions of a pair apart, and those of a template that changes earlier turns. */
export function sequencesOf(tokens: readonly DatasetToken[]): TokenSequence[] {
  const sequences = new Map<string, TokenSequence>();
  for (const token of tokens) {
    const { side, sequence } = token, key = `${side} ${sequence}`;
    const title = [side, sequence === 0 && side !== null ? null : `sequence ${sequence + 1}`];
    const known = sequences.get(key);
    if (known) known.tokens.push(token);
    else sequences.set(key, { title: title.filter(Boolean).join(", "), tokens: [token] });
  }
  return [...sequences.values()];
}
