/** The interface of all tokenizers: text to ids and back. */

export interface EncodeOptions {
  /** Whether control tokens are parsed; user-defined ones always are. */
  special: boolean;
  /**
   * The id before the text; absent at the beginning of a sequence. Kinds that prepend a space to a text do so only at a
   * beginning and after special tokens.
   */
  after?: number | null | undefined;
}

/** Use `readTokenizer` to read one from a model file. */
export interface Tokenizer {
  /** Tokens of the vocabulary. */
  readonly size: number;
  readonly bos_id: number | null;
  readonly eos_id: number | null;
  /** Whether plain text (not a rendered template) starts with `bos_id`. */
  readonly adds_bos: boolean;
  /** All ids that end a generation, ascending. */
  readonly end_ids: readonly number[];
  /** No token stands for more UTF-16 units of a text than this: a lower bound of a text's tokens without encoding it. */
  readonly longest_token: number;
  /** Whether encoding prepends a space to a text, which decoding removes. */
  readonly has_space_prefix: boolean;

  /** The ids of a text, without additional tokens. Lone surrogates become U+FFFD. */
  encode(text: string, options: EncodeOptions): number[];
  /**
   * The text of ids at the beginning of a text. Bytes that are not UTF-8 become U+FFFD. Control tokens are left out
   * without `special`.
   */
  decode(ids: Iterable<number>, options: { special: boolean }): string;
  /** The text of one id inside a text, special or not. */
  textOf(id: number): string;
  /** The bytes of an id inside a text; for a special token those of its own text. */
  bytesOf(id: number): Uint8Array;
  /** Whether an id is a control token such as `<|im_end|>`, or the unknown token. */
  isControl(id: number): boolean;
}

const SPACE = 0x20;

/** Decodes ids one by one. A character is returned when its last byte has arrived. */
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

  /** Returns the characters that this id completes. */
  push(id: number): string {
    // As in llama.cpp, only the first token can lose a space, whether it is shown or not.
    const strips = this.#strips_space;
    this.#strips_space = false;
    if (!this.#special && this.#tokenizer.isControl(id)) return "";
    const bytes = this.#tokenizer.bytesOf(id);
    return this.#decoder.decode(strips && bytes[0] === SPACE ? bytes.subarray(1) : bytes, { stream: true });
  }

  /** Returns the rest: U+FFFD for an incomplete character. */
  end(): string {
    return this.#decoder.decode();
  }
}
