/** The masks of JSON schemas for one vocabulary. */

import { compileSchema, type Grammar } from "./grammar.ts";
import { GrammarMask } from "./grammar_mask.ts";
import { MaskTable } from "./mask_table.ts";
import { RegexArena } from "./regex.ts";
import { type TokenBytes, TokenTrie } from "./token_trie.ts";

/** Compiled schemas that are kept. */
const MAX_GRAMMARS = 32;
/** Expressions after which new schemas get an arena of their own: about 200 MB. */
const MAX_EXPRESSIONS = 200_000;

/**
 * Compiles schemas once, and shares what their masks have in common.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const characters = '"abc';
 * const bytesOf = (id) => new TextEncoder().encode(characters[id]);
 * const grammars = new Grammars(() => ({ size: 4, bytesOf, isControl: () => false }));
 * const mask = grammars.mask('{"const": "ab"}', 1);
 * const allowed = () => [...characters].filter((_, id) => mask.bits()[0] >>> id & 1);
 * assert.deepEqual(allowed(), ['"']);
 * mask.advance(0);
 * assert.deepEqual(allowed(), ["a"]);
 * ```
 */
export class Grammars {
  readonly #tokens: () => TokenBytes;
  readonly #compiled = new Map<string, { grammar: Grammar; table: MaskTable }>();
  #trie: TokenTrie | null = null;
  #table: MaskTable | null = null;

  /** @param tokens Called with the first mask: reading a vocabulary takes about a second. */
  constructor(tokens: () => TokenBytes) {
    this.#tokens = tokens;
  }

  /**
   * A mask at the beginning of a text.
   *
   * @param words Words of its bits. @throws {ServiceError} `config_invalid`, see {@link compileSchema}.
   */
  mask(schema: string, words: number): GrammarMask {
    const found = this.#compiled.get(schema) ?? this.#compile(schema);
    this.#compiled.delete(schema);
    this.#compiled.set(schema, found);
    for (const oldest of this.#compiled.keys()) {
      if (this.#compiled.size <= MAX_GRAMMARS) break;
      this.#compiled.delete(oldest);
    }
    return new GrammarMask(found.grammar, found.table, words);
  }

  #compile(schema: string): { grammar: Grammar; table: MaskTable } {
    this.#trie ??= new TokenTrie(this.#tokens());
    if (!this.#table || this.#table.arena.size > MAX_EXPRESSIONS) {
      this.#table = new MaskTable(this.#trie, new RegexArena());
    }
    const table = this.#table;
    return { grammar: compileSchema(schema, table.arena), table };
  }
}
