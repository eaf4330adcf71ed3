/** The tokens that a sequence may sample next. */

import { ServiceError } from "../../core/errors.ts";
import type { TokenMaskRequest } from "../engine/protocol.ts";

/** A set of allowed ids that may change with every token. */
export interface TokenMask {
  /** Bit `id % 32` of word `id / 32` is 1 if the id is allowed next. */
  bits(): Uint32Array;
  /** Advances the mask by a sampled token. */
  advance(token: number): void;
  /** True when the set never changes, so that several tokens can be sampled without the host. */
  readonly is_static: boolean;
}

/** @throws {ServiceError} `config_invalid` when no token would ever be allowed. */
export function createTokenMask(request: TokenMaskRequest, vocabulary: number): TokenMask {
  const bits = new Uint32Array(Math.ceil(vocabulary / 32));
  for (const token of request.tokens) {
    if (!Number.isInteger(token) || token < 0 || token >= vocabulary) {
      throw new ServiceError(
        "config_invalid",
        `Cannot allow token ${token}: the vocabulary has ${vocabulary}`,
      );
    }
    bits[token >>> 5]! |= 1 << (token & 31);
  }
  if (request.tokens.length === 0) {
    throw new ServiceError("config_invalid", "Cannot draw from an empty set of allowed tokens");
  }
  return { bits: () => bits, advance: () => {}, is_static: true };
}
