/** The vocabulary of the scripted engine. */

import type { TokenBytes } from "../grammar/token_trie.ts";

/** The characters of the first token ids. Further ids have no text. */
const SCRIPTED_CHARACTERS = '{}[]":, 0123456789-.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOP';

/** The stop token of the scripted vocabulary. */
export const SCRIPTED_END = SCRIPTED_CHARACTERS.length;

/** The texts of the scripted vocabulary. */
export function scriptedTokens(size: number): TokenBytes {
  const bytesOf = (id: number) => new TextEncoder().encode(SCRIPTED_CHARACTERS[id] ?? "");
  return { size, bytesOf, isControl: (id) => id === SCRIPTED_END };
}
