/** Byte-level byte-pair encoding as in GPT-2: `tokenizer.ggml.model` is `gpt2`. */

import { ServiceError } from "../../../core/errors.ts";
import type { GgufFile } from "../../formats/gguf.ts";
import { formatError } from "../../formats/model_file.ts";
import { bytesOfToken, CHARACTER_OF_BYTE } from "../bpe/byte_table.ts";
import { applyMerges, type MergeTable } from "../bpe/merges.ts";
import { eachWord, type Pretokenizer, pretokenizerNamed, PRETOKENIZERS } from "../bpe/pretokenizer.ts";
import { WordCache } from "../word_cache.ts";
import type { Tokenizer } from "../tokenizer.ts";
import { MAX_TOKEN_CHARS, readVocabulary, TOKEN_TYPES, type Vocabulary } from "../vocabulary.ts";
import { type PlainCodec, VocabularyTokenizer } from "../vocabulary_tokenizer.ts";

/** Longer words are split before merging, so that a word takes bounded memory. */
export const MAX_WORD_BYTES = 1 << 20;

/**
 * Reads a tokenizer of this kind.
 *
 * @throws {ServiceError} `format_invalid` naming file and key; `not_built` for an unknown pre-tokenizer.
 */
export function readBpe(file: GgufFile): Tokenizer {
  const pretokenizer = readPretokenizer(file);
  const { adds_bos } = pretokenizer;
  const vocabulary = readVocabulary(file, { bos_id: null, eos_id: null, adds_bos });
  const codec = new BpeCodec(vocabulary, {
    pretokenizer,
    bytes: readBytes(file, vocabulary),
    merges: readMerges(file, vocabulary),
  });
  return new VocabularyTokenizer(vocabulary, codec);
}

interface BpeParts {
  pretokenizer: Pretokenizer;
  /** The id of each byte. */
  bytes: Uint32Array;
  merges: MergeTable;
}

class BpeCodec implements PlainCodec {
  readonly has_space_prefix = false;
  readonly #cache = new WordCache();
  readonly #encoder = new TextEncoder();

  constructor(private readonly vocabulary: Vocabulary, private readonly parts: BpeParts) {}

  encode(text: string, ids: number[]): void {
    const encode = (word: string) => this.#encodeWord(word);
    eachWord(text, this.parts.pretokenizer, (word) => {
      for (const id of this.#cache.tokensOf(word, encode)) ids.push(id);
    });
  }

  bytesOf(id: number): Uint8Array | null {
    return bytesOfToken(this.vocabulary.tokens[id]!);
  }

  #encodeWord(word: string): number[] {
    const { pretokenizer, merges } = this.parts;
    const bytes = this.#encoder.encode(word), ids: number[] = [];
    const whole = pretokenizer.takes_whole_words ? this.#wholeWord(bytes) : null;
    if (whole !== null) return [whole];
    for (let at = 0; at < bytes.length; at += MAX_WORD_BYTES) {
      const tokens = Uint32Array.from(bytes.subarray(at, at + MAX_WORD_BYTES), (byte) => {
        return this.parts.bytes[byte]!;
      });
      for (const id of applyMerges(tokens, merges)) ids.push(id);
    }
    return ids;
  }

  #wholeWord(bytes: Uint8Array): number | null {
    if (bytes.length > MAX_TOKEN_CHARS) return null;
    const id = this.vocabulary.ids.get(Array.from(bytes, (byte) => CHARACTER_OF_BYTE[byte]!).join(""));
    return id !== undefined && this.vocabulary.types[id] === TOKEN_TYPES.normal ? id : null;
  }
}

function readPretokenizer(file: GgufFile): Pretokenizer {
  const pre = file.getString("tokenizer.ggml.pre", "default");
  const pretokenizer = pretokenizerNamed(pre);
  if (pretokenizer) return pretokenizer;
  throw new ServiceError(
    "not_built",
    `Cannot read the tokenizer of ${file.path}: tokenizer.ggml.pre ${pre} is not supported; ` +
      `supported are ${PRETOKENIZERS.join(", ")}`,
    { path: file.path, pre },
  );
}

function readBytes(file: GgufFile, { ids }: Vocabulary): Uint32Array {
  return Uint32Array.from(CHARACTER_OF_BYTE, (character, byte) => {
    const id = ids.get(character);
    if (id !== undefined) return id;
    throw formatError(file.path, `tokenizer.ggml.tokens has no token for the byte ${byte}`);
  });
}

function readMerges(file: GgufFile, { ids }: Vocabulary): MergeTable {
  const merges = file.getStrings("tokenizer.ggml.merges");
  const ranks = new Map<number, number>(), results = new Uint32Array(merges.length), size = ids.size;
  for (let rank = 0; rank < merges.length; rank++) {
    const merge = merges[rank]!;
    // Neither part is empty. Both may contain spaces only in vocabularies that are not byte-level.
    const space = merge.indexOf(" ", 1);
    const left = ids.get(merge.slice(0, space)), right = ids.get(merge.slice(space + 1));
    const result = ids.get(merge.slice(0, space) + merge.slice(space + 1));
    if (space < 0 || left === undefined || right === undefined || result === undefined) {
      throw formatError(
        file.path,
        `tokenizer.ggml.merges item ${rank}, ${JSON.stringify(merge)}, is no pair of tokens that makes one`,
        { rank },
      );
    }
    results[rank] = result;
    const pair = left * size + right;
    if (!ranks.has(pair)) ranks.set(pair, rank);
  }
  return { size, ranks, results };
}
