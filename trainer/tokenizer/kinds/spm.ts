/** SentencePiece's byte-pair encoding as in llama.cpp: `tokenizer.ggml.model` is `llama`. */

import type { GgufFile } from "../../formats/gguf.ts";
import { formatError } from "../../formats/model_file.ts";
import { isPiece, mergePieces, type PieceTable, pieceTable, splitWords } from "../spm/pieces.ts";
import type { Tokenizer } from "../tokenizer.ts";
import { readTokenId, readVocabulary, TOKEN_TYPES, type Vocabulary } from "../vocabulary.ts";
import { type PlainCodec, VocabularyTokenizer } from "../vocabulary_tokenizer.ts";
import { WordCache } from "../word_cache.ts";

/** Represents a space in a piece. */
const SPACE_MARK = "\u2581";

/** Reads a tokenizer of this kind. @throws {ServiceError} `format_invalid` naming file and key. */
export function readSpm(file: GgufFile): Tokenizer {
  const vocabulary = readVocabulary(file, { bos_id: 1, eos_id: 2, adds_bos: true });
  const codec = new SpmCodec(vocabulary, {
    pieces: pieceTable(vocabulary, readScores(file, vocabulary)),
    fallback: readFallback(file, vocabulary),
    has_space_prefix: file.getBool("tokenizer.ggml.add_space_prefix", true),
  });
  return new VocabularyTokenizer(vocabulary, codec);
}

/** Replaces a character without a piece. */
interface Fallback {
  /** By byte: the id of `<0xXX>`, or -1. */
  bytes: Int32Array;
  unknown_id: number | null;
}

interface SpmParts {
  pieces: PieceTable;
  fallback: Fallback;
  has_space_prefix: boolean;
}

class SpmCodec implements PlainCodec {
  readonly has_space_prefix: boolean;
  readonly #cache = new WordCache();
  readonly #encoder = new TextEncoder();

  constructor(private readonly vocabulary: Vocabulary, private readonly parts: SpmParts) {
    this.has_space_prefix = parts.has_space_prefix;
  }

  encode(text: string, ids: number[]): void {
    const { pieces, fallback } = this.parts, begin = ids.length;
    const encode = (word: string) => this.#encodeWord(word);
    for (const word of splitWords(text.toWellFormed().replaceAll(" ", SPACE_MARK), pieces)) {
      for (const id of this.#cache.tokensOf(word, encode)) {
        // As in SentencePiece, a run of characters without a piece is one unknown token.
        const repeats = id === fallback.unknown_id && ids.length > begin && ids.at(-1) === id;
        if (!repeats) ids.push(id);
      }
    }
  }

  bytesOf(id: number): Uint8Array {
    const text = this.vocabulary.tokens[id]!;
    if (this.vocabulary.types[id] === TOKEN_TYPES.byte) return Uint8Array.of(byteOf(text)!);
    return this.#encoder.encode(text.replaceAll(SPACE_MARK, " "));
  }

  #encodeWord(word: string): number[] {
    const { pieces, fallback } = this.parts, ids: number[] = [];
    for (const part of mergePieces(word, pieces)) {
      if (typeof part === "number") {
        ids.push(part);
        continue;
      }
      const bytes = Array.from(this.#encoder.encode(part), (byte) => fallback.bytes[byte]!);
      if (bytes.every((id) => id >= 0)) ids.push(...bytes);
      else ids.push(fallback.unknown_id!);
    }
    return ids;
  }
}

function readScores(file: GgufFile, { tokens }: Vocabulary): ArrayLike<number> {
  const key = "tokenizer.ggml.scores", scores = file.getNumbers(key);
  if (scores.length !== tokens.length) {
    throw formatError(file.path, `${key} has ${scores.length} items for ${tokens.length} tokens`);
  }
  const wrong = Array.prototype.findIndex.call(scores, Number.isNaN);
  if (wrong < 0) return scores;
  throw formatError(file.path, `${key} item ${wrong} is not a number`);
}

/** The byte of `<0xXX>`; null for another text. */
function byteOf(text: string): number | null {
  return /^<0x[0-9A-F]{2}>$/.test(text) ? Number(text.slice(1, -1)) : null;
}

function readFallback(file: GgufFile, { tokens, types }: Vocabulary): Fallback {
  const bytes = new Int32Array(256).fill(-1);
  for (let id = 0; id < tokens.length; id++) {
    if (types[id] !== TOKEN_TYPES.byte) continue;
    const byte = byteOf(tokens[id]!);
    if (byte === null) {
      const text = JSON.stringify(tokens[id]);
      throw formatError(file.path, `tokenizer.ggml.tokens item ${id}, ${text}, is no byte such as <0x0A>`);
    }
    bytes[byte] = id;
  }
  const named = readTokenId(file, "unknown_token_id", tokens.length);
  const typed = Array.prototype.indexOf.call(types, TOKEN_TYPES.unknown);
  const unknown_id = [named, typed].find((id) => id !== null && id >= 0 && !isPiece(types[id]!)) ?? null;
  const missing = bytes.indexOf(-1);
  if (missing >= 0 && unknown_id === null) {
    throw formatError(
      file.path,
      `tokenizer.ggml.tokens has neither a token for the byte ${missing} nor an unknown token`,
    );
  }
  return { bytes, unknown_id };
}
