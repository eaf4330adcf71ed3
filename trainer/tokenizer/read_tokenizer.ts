/** The tokenizer of a model file. */

import { ServiceError } from "../../core/errors.ts";
import type { GgufFile } from "../formats/gguf.ts";
import { readBpe } from "./kinds/bpe.ts";
import { readSpm } from "./kinds/spm.ts";
import type { Tokenizer } from "./tokenizer.ts";

/** The kinds of tokenizer, by the value of `tokenizer.ggml.model`. */
const KINDS: Readonly<Record<string, (file: GgufFile) => Tokenizer>> = {
  gpt2: readBpe,
  llama: readSpm,
};

/**
 * Reads the tokenizer of a model.
 *
 * @throws {ServiceError} `format_invalid` naming file and key; `not_built` for an unknown kind.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { openGguf } from "../formats/gguf.ts";
 *
 * using file = await openGguf("fixtures/models/tiny-agent-f16.gguf");
 * const tokenizer = readTokenizer(file);
 * const ids = tokenizer.encode("Hello, world!", { special: false });
 * assert.equal(tokenizer.decode(ids, { special: false }), "Hello, world!");
 * ```
 */
export function readTokenizer(file: GgufFile): Tokenizer {
  const model = file.getString("tokenizer.ggml.model");
  if (Object.hasOwn(KINDS, model)) return KINDS[model]!(file);
  throw new ServiceError(
    "not_built",
    `Cannot read the tokenizer of ${file.path}: tokenizer.ggml.model ${model} is not supported; ` +
      `supported are ${Object.keys(KINDS).join(", ")}`,
    { path: file.path, model },
  );
}
