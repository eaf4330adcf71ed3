/** The tokens that a sequence may sample next. */

import { ServiceError } from "../../core/errors.ts";
import type { TokenMaskRequest } from "../protocol/protocol.ts";
import type { GrammarMask } from "../grammar/grammar_mask.ts";
import type { Grammars } from "../grammar/grammars.ts";

/** A set of allowed ids that may change with every token. */
export interface TokenMask {
  /**
   * Bit `id % 32` of word `id / 32` is 1 if the id is allowed next. The array is valid until the mask advances.
   *
   * @throws {ServiceError} When no token is allowed, or the schema has too many alternatives at this point.
   */
  bits(): Uint32Array;
  /** Advances the mask by a sampled token. */
  advance(token: number): void;
  /** True when the set never changes, so that several tokens can be sampled without the host. */
  readonly is_static: boolean;
}

/** The model and the request that a mask is made for. */
export interface MaskContext {
  /** Ids of the model. */
  vocabulary: number;
  /** With a JSON schema, they are allowed where the text may end, and nowhere else. */
  stop_tokens: readonly number[];
  /** Null without a tokenizer: JSON schemas are refused. */
  grammars: Grammars | null;
}

/** @throws {ServiceError} `config_invalid` when no token would ever be allowed, or the schema is refused. */
export function createTokenMask(request: TokenMaskRequest, context: MaskContext): TokenMask {
  return request.type === "allowed_tokens"
    ? listMask(request.tokens, context)
    : schemaMask(request.schema, context);
}

function listMask(tokens: readonly number[], { vocabulary }: MaskContext): TokenMask {
  const bits = new Uint32Array(Math.ceil(vocabulary / 32));
  for (const token of tokens) {
    if (!Number.isInteger(token) || token < 0 || token >= vocabulary) {
      throw new ServiceError(
        "config_invalid",
        `Cannot allow token ${token}: the vocabulary has ${vocabulary}`,
      );
    }
    bits[token >>> 5]! |= 1 << (token & 31);
  }
  if (tokens.length === 0) {
    throw new ServiceError("config_invalid", "Cannot sample from an empty set of allowed tokens");
  }
  return { bits: () => bits, advance: () => {}, is_static: true };
}

function schemaMask(schema: string, { vocabulary, stop_tokens, grammars }: MaskContext): TokenMask {
  if (!grammars) {
    throw new ServiceError(
      "config_invalid",
      "Cannot sample under a JSON schema: the engine has no tokenizer",
    );
  }
  const stops = stop_tokens.filter((token) => Number.isInteger(token) && token >= 0 && token < vocabulary);
  if (stops.length === 0) {
    throw new ServiceError(
      "config_invalid",
      "Cannot sample under a JSON schema without a stop token: the text would have no end. Give the ids that end a turn",
    );
  }
  return new SchemaMask(grammars.mask(schema, Math.ceil(vocabulary / 32)), stops);
}

class SchemaMask implements TokenMask {
  readonly is_static = false;

  constructor(private readonly grammar: GrammarMask, private readonly stop_tokens: readonly number[]) {}

  bits(): Uint32Array {
    const bits = this.grammar.bits(), { is_end } = this.grammar.state;
    for (const token of this.stop_tokens) {
      const bit = 1 << (token & 31);
      if (is_end) bits[token >>> 5]! |= bit;
      else bits[token >>> 5]! &= ~bit;
    }
    if (bits.some((word) => word !== 0)) return bits;
    throw new ServiceError(
      "config_invalid",
      "Cannot go on under the JSON schema: no token of the vocabulary has the characters that must follow",
    );
  }

  advance(token: number): void {
    if (!this.stop_tokens.includes(token)) this.grammar.advance(token);
  }
}
