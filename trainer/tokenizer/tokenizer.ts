/** Byte-level byte-pair encoding from the vocabulary of a GGUF file. */

import { assert } from "../../core/errors.ts";
import type { GgufFile } from "../formats/gguf.ts";
import { bytesOfToken } from "./byte_table.ts";
import { applyMerges } from "./merges.ts";
import { readVocabulary, type Vocabulary } from "./vocabulary.ts";
import { WordCache } from "./word_cache.ts";

/** Words longer than this are split before merging, so that one word takes bounded memory. */
export const MAX_WORD_BYTES = 1 << 20;

export class Tokenizer {
  /** Tokens of the vocabulary. */
  readonly size: number;
  readonly bos_id: number | null;
  readonly eos_id: number | null;
  /** Whether plain text (no rendered template) begins with `bos_id`. */
  readonly adds_bos: boolean;
  /** Every id that ends a generation, ascending. */
  readonly end_ids: readonly number[];

  readonly #vocabulary: Vocabulary;
  readonly #cache = new WordCache();
  readonly #encoder = new TextEncoder();
  readonly #bytes: (Uint8Array | undefined)[] = [];
  readonly #user_defined: RegExp | null;
  readonly #all_special: RegExp | null;

  constructor(vocabulary: Vocabulary) {
    this.#vocabulary = vocabulary;
    this.size = vocabulary.tokens.length;
    this.bos_id = vocabulary.bos_id;
    this.eos_id = vocabulary.eos_id;
    this.adds_bos = vocabulary.adds_bos;
    this.end_ids = vocabulary.end_ids;
    this.#user_defined = anyOf([...vocabulary.user_defined.keys()]);
    this.#all_special = anyOf([...vocabulary.user_defined.keys(), ...vocabulary.control.keys()]);
  }

  /** Reads the tokenizer of a model. @throws {ServiceError} `format_invalid` or `not_built`. */
  static fromGguf(file: GgufFile): Tokenizer {
    return new Tokenizer(readVocabulary(file));
  }

  /**
   * The ids of a text. User-defined tokens are always parsed, control tokens only with `special`; nothing is added
   * in front or behind. Lone surrogates become U+FFFD.
   */
  encode(text: string, { special }: { special: boolean }): number[] {
    const pattern = special ? this.#all_special : this.#user_defined;
    const ids: number[] = [];
    let at = 0;
    for (const match of pattern ? text.matchAll(pattern) : []) {
      this.#encodePlain(text.slice(at, match.index), ids);
      ids.push(this.idOf(match[0])!);
      at = match.index + match[0].length;
    }
    this.#encodePlain(text.slice(at), ids);
    return ids;
  }

  /** The text of some ids; bytes that are no UTF-8 become U+FFFD. Control tokens are left out without `special`. */
  decode(ids: Iterable<number>, { special }: { special: boolean }): string {
    const decoder = new StreamingDecoder(this, { special });
    let text = "";
    for (const id of ids) text += decoder.push(id);
    return text + decoder.end();
  }

  /** The bytes that an id stands for; a special token's own text. */
  bytesOf(id: number): Uint8Array {
    assert(Number.isInteger(id) && id >= 0 && id < this.size, `${id} is a token of the vocabulary`);
    return this.#bytes[id] ??= this.#findBytes(id);
  }

  /** Whether an id is a control token such as `<|im_end|>`. */
  isControl(id: number): boolean {
    return this.#vocabulary.control.get(this.#vocabulary.tokens[id] ?? "") === id;
  }

  /** The id of a control or user-defined token; null when there is none of this text. */
  idOf(text: string): number | null {
    return this.#vocabulary.control.get(text) ?? this.#vocabulary.user_defined.get(text) ?? null;
  }

  #findBytes(id: number): Uint8Array {
    const text = this.#vocabulary.tokens[id]!;
    const plain = this.idOf(text) === null ? bytesOfToken(text) : null;
    return plain ?? this.#encoder.encode(text);
  }

  #encodePlain(text: string, ids: number[]): void {
    for (const [word] of text.matchAll(this.#vocabulary.pattern)) {
      let tokens = this.#cache.get(word);
      if (!tokens) {
        tokens = this.#encodeWord(word);
        this.#cache.set(word, tokens);
      }
      for (const id of tokens) ids.push(id);
    }
  }

  #encodeWord(word: string): number[] {
    const bytes = this.#encoder.encode(word), ids: number[] = [];
    for (let at = 0; at < bytes.length; at += MAX_WORD_BYTES) {
      const tokens = Uint32Array.from(bytes.subarray(at, at + MAX_WORD_BYTES), (byte) => {
        return this.#vocabulary.bytes[byte]!;
      });
      for (const id of applyMerges(tokens, this.#vocabulary.merges)) ids.push(id);
    }
    return ids;
  }
}

/** Decodes ids one by one; a character is given out when its last byte is there. */
export class StreamingDecoder {
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  readonly #tokenizer: Tokenizer;
  readonly #special: boolean;

  constructor(tokenizer: Tokenizer, { special }: { special: boolean }) {
    this.#tokenizer = tokenizer;
    this.#special = special;
  }

  /** The characters that this id completes. */
  push(id: number): string {
    if (!this.#special && this.#tokenizer.isControl(id)) return "";
    return this.#decoder.decode(this.#tokenizer.bytesOf(id), { stream: true });
  }

  /** What is left: U+FFFD for a character that never became whole. */
  end(): string {
    return this.#decoder.decode();
  }
}

/** Matches any of some texts, at each place the longest. Null when there are none. */
function anyOf(texts: readonly string[]): RegExp | null {
  if (texts.length === 0) return null;
  const longest_first = texts.toSorted((a, b) => b.length - a.length);
  return new RegExp(longest_first.map((text) => RegExp.escape(text)).join("|"), "gu");
}
