/** A tokenizer over a vocabulary: all kinds share the handling of special tokens; plain text is encoded by the kind. */

import { assert } from "../../core/errors.ts";
import { SpecialTokens } from "./special_tokens.ts";
import { type EncodeOptions, StreamingDecoder, type Tokenizer } from "./tokenizer.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** A kind's encoding of plain text without special tokens. */
export interface PlainCodec {
  /** Whether encoding prepends a space to a text. */
  readonly has_space_prefix: boolean;
  /** Appends the ids of a text. */
  encode(text: string, ids: number[]): void;
  /** The bytes of a plain token; null when they are those of its text. */
  bytesOf(id: number): Uint8Array | null;
}

export class VocabularyTokenizer implements Tokenizer {
  readonly size: number;
  readonly bos_id: number | null;
  readonly eos_id: number | null;
  readonly adds_bos: boolean;
  readonly end_ids: readonly number[];
  readonly has_space_prefix: boolean;
  readonly longest_token: number;

  readonly #vocabulary: Vocabulary;
  readonly #codec: PlainCodec;
  readonly #encoder = new TextEncoder();
  readonly #bytes: (Uint8Array | undefined)[] = [];
  readonly #control: ReadonlySet<number>;
  readonly #user_defined: ReadonlySet<number>;
  /** The tokens that are always parsed, and those that are parsed with `special`. */
  readonly #parsed_always: SpecialTokens;
  readonly #parsed: SpecialTokens;

  constructor(vocabulary: Vocabulary, codec: PlainCodec) {
    this.#vocabulary = vocabulary;
    this.#codec = codec;
    this.size = vocabulary.tokens.length;
    this.bos_id = vocabulary.bos_id;
    this.eos_id = vocabulary.eos_id;
    this.adds_bos = vocabulary.adds_bos;
    this.end_ids = vocabulary.end_ids;
    this.has_space_prefix = codec.has_space_prefix;
    // A kind may spell a token in more units than its text has, and never in fewer.
    this.longest_token = vocabulary.tokens.reduce((most, { length }) => Math.max(most, length), 1);
    const { control, user_defined } = vocabulary;
    this.#control = new Set(control.values());
    this.#user_defined = new Set(user_defined.values());
    this.#parsed_always = new SpecialTokens(user_defined);
    this.#parsed = new SpecialTokens([...user_defined, ...control]);
  }

  encode(text: string, { special, after = null }: EncodeOptions): number[] {
    const ids: number[] = [];
    let at = 0, begins = after === null || this.#isSpecial(after);
    const encodePlain = (end: number) => {
      if (end === at) return;
      const plain = text.slice(at, end);
      this.#codec.encode(this.has_space_prefix && begins ? ` ${plain}` : plain, ids);
    };
    for (const found of (special ? this.#parsed : this.#parsed_always).find(text)) {
      encodePlain(found.start);
      ids.push(found.id);
      at = found.end;
      begins = true;
    }
    encodePlain(text.length);
    return ids;
  }

  decode(ids: Iterable<number>, { special }: { special: boolean }): string {
    const decoder = new StreamingDecoder(this, { special });
    let text = "";
    for (const id of ids) text += decoder.push(id);
    return text + decoder.end();
  }

  textOf(id: number): string {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.bytesOf(id));
  }

  bytesOf(id: number): Uint8Array {
    assert(Number.isInteger(id) && id >= 0 && id < this.size, `${id} is a token of the vocabulary`);
    return this.#bytes[id] ??= this.#findBytes(id);
  }

  isControl(id: number): boolean {
    return this.#control.has(id);
  }

  #isSpecial(id: number): boolean {
    return this.#control.has(id) || this.#user_defined.has(id);
  }

  #findBytes(id: number): Uint8Array {
    const plain = this.#isSpecial(id) ? null : this.#codec.bytesOf(id);
    return plain ?? this.#encoder.encode(this.#vocabulary.tokens[id]!);
  }
}
