/** What every tokenizer does, whatever its kind: text to ids and back. */

export interface EncodeOptions {
  /** Whether control tokens are parsed; user-defined ones always are. */
  special: boolean;
  /**
   * The id that the text stands behind; none at the beginning of a sequence. Kinds that put a space before a text do so
   * at a beginning and behind special tokens only.
   */
  after?: number | null | undefined;
}

/** `read_tokenizer.ts` reads one from a model's file. */
export interface Tokenizer {
  /** Tokens of the vocabulary. */
  readonly size: number;
  readonly bos_id: number | null;
  readonly eos_id: number | null;
  /** Whether plain text (no rendered template) begins with `bos_id`. */
  readonly adds_bos: boolean;
  /** Every id that ends a generation, ascending. */
  readonly end_ids: readonly number[];
  /** Whether a text gets a space in front when it is encoded, which decoding takes away again. */
  readonly has_space_prefix: boolean;

  /** The ids of a text; no token is added in front or behind. Lone surrogates become U+FFFD. */
  encode(text: string, options: EncodeOptions): number[];
  /**
   * The text of some ids that begin a text; bytes that are no UTF-8 become U+FFFD. Control tokens are left out without
   * `special`.
   */
  decode(ids: Iterable<number>, options: { special: boolean }): string;
  /** The text of one id as it stands within a text, special or not. */
  textOf(id: number): string;
  /** The bytes that an id stands for within a text; a special token's own text. */
  bytesOf(id: number): Uint8Array;
  /** Whether an id is a control token such as `<|im_end|>`, or the unknown token. */
  isControl(id: number): boolean;
  /** The id of a control or user-defined token; null when there is none of this text. */
  idOf(text: string): number | null;
}

const SPACE = 0x20;

/** Decodes the ids of a text one by one; a character is given out when its last byte is there. */
export class StreamingDecoder {
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  readonly #tokenizer: Tokenizer;
  readonly #special: boolean;
  #strips_space: boolean;

  constructor(tokenizer: Tokenizer, { special }: { special: boolean }) {
    this.#tokenizer = tokenizer;
    this.#special = special;
    this.#strips_space = tokenizer.has_space_prefix;
  }

  /** The characters that this id completes. */
  push(id: number): string {
    // As in llama.cpp the first token alone can lose a space, be it shown or not.
    const strips = this.#strips_space;
    this.#strips_space = false;
    if (!this.#special && this.#tokenizer.isControl(id)) return "";
    const bytes = this.#tokenizer.bytesOf(id);
    return this.#decoder.decode(strips && bytes[0] === SPACE ? bytes.subarray(1) : bytes, { stream: true });
  }

  /** What is left: U+FFFD for a character that never became whole. */
  end(): string {
    return this.#decoder.decode();
  }
}
