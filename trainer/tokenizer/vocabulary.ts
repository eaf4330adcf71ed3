/** The checked parts that all vocabularies have: tokens, their types and special ids. */

import type { GgufFile } from "../formats/gguf.ts";
import { formatError } from "../formats/model_file.ts";

/** The numbers of `tokenizer.ggml.token_type`. */
export const TOKEN_TYPES = {
  normal: 1,
  unknown: 2,
  control: 3,
  user_defined: 4,
  unused: 5,
  byte: 6,
} as const;
const LAST_TOKEN_TYPE = TOKEN_TYPES.byte;

/** Longer tokens are refused, because the work at each position of a text grows with the longest. In UTF-16 units. */
export const MAX_TOKEN_CHARS = 1024;
/** The most units of all special tokens together: the trie for them grows with it. */
export const MAX_SPECIAL_CHARS = 1 << 20;

/** Texts of tokens that end a turn or a text, for vocabularies whose metadata names only one. */
const END_TEXTS = [
  "<|im_end|>",
  "<|endoftext|>",
  "<|eot_id|>",
  "<|eom_id|>",
  "<|end|>",
  "<|end_of_text|>",
  "<end_of_turn>",
];

export interface Vocabulary {
  /** The text of each id, in the kind's spelling. */
  tokens: readonly string[];
  ids: ReadonlyMap<string, number>;
  /** By id: a number of {@link TOKEN_TYPES}. */
  types: ArrayLike<number>;
  /** Control and unknown tokens by text: parsed only on request. */
  control: ReadonlyMap<string, number>;
  /** User-defined tokens by text: always parsed. */
  user_defined: ReadonlyMap<string, number>;
  bos_id: number | null;
  eos_id: number | null;
  /** Whether plain text starts with `bos_id`; rendered templates contain their own. */
  adds_bos: boolean;
  /** All ids that end a generation. */
  end_ids: number[];
}

/** A kind's defaults when the file does not say. */
export interface VocabularyDefaults {
  bos_id: number | null;
  eos_id: number | null;
  adds_bos: boolean;
}

/** Reads the vocabulary of a model. @throws {ServiceError} `format_invalid` naming file and key. */
export function readVocabulary(file: GgufFile, defaults: VocabularyDefaults): Vocabulary {
  const tokens = readTokens(file);
  const ids = new Map<string, number>();
  for (let id = 0; id < tokens.length; id++) ids.set(tokens[id]!, id);
  if (ids.size !== tokens.length) {
    const twice = tokens.findIndex((text, id) => ids.get(text) !== id);
    throw formatError(file.path, `tokenizer.ggml.tokens holds ${JSON.stringify(tokens[twice])} twice`);
  }
  const types = readTypes(file, tokens.length);
  const { control, user_defined } = specialTokens(file, tokens, types);
  const idAt = (key: string, fallback: number | null) => {
    return readTokenId(file, key, tokens.length) ??
      (fallback !== null && fallback < tokens.length ? fallback : null);
  };
  const eos_id = idAt("eos_token_id", defaults.eos_id);
  const ends = [
    eos_id,
    idAt("eot_token_id", null),
    idAt("eom_token_id", null),
    ...END_TEXTS.map((text) => control.get(text) ?? null),
  ];
  return {
    tokens,
    ids,
    types,
    control,
    user_defined,
    bos_id: idAt("bos_token_id", defaults.bos_id),
    eos_id,
    adds_bos: file.getBool("tokenizer.ggml.add_bos_token", defaults.adds_bos),
    end_ids: [...new Set(ends.filter((id) => id !== null))].sort((a, b) => a - b),
  };
}

/** The id under `tokenizer.ggml.<key>`; null without the key. @throws {ServiceError} `format_invalid`. */
export function readTokenId(file: GgufFile, key: string, size: number): number | null {
  if (!file.metadata.has(`tokenizer.ggml.${key}`)) return null;
  const id = file.getUint(`tokenizer.ggml.${key}`);
  if (id < size) return id;
  throw formatError(file.path, `tokenizer.ggml.${key} is ${id}, but there are ${size} tokens`);
}

function readTokens(file: GgufFile): string[] {
  const tokens = file.getStrings("tokenizer.ggml.tokens");
  const long = tokens.findIndex((text) => text.length > MAX_TOKEN_CHARS);
  if (long < 0) return tokens;
  throw formatError(
    file.path,
    `tokenizer.ggml.tokens item ${long} has ${tokens[long]!.length} characters, more than the limit of ` +
      MAX_TOKEN_CHARS,
  );
}

/** The type of each token; all are normal in a file without types. */
function readTypes(file: GgufFile, size: number): ArrayLike<number> {
  const key = "tokenizer.ggml.token_type";
  if (!file.metadata.has(key)) return new Uint8Array(size).fill(TOKEN_TYPES.normal);
  const types = file.getNumbers(key);
  if (types.length !== size) {
    throw formatError(file.path, `${key} has ${types.length} items for ${size} tokens`);
  }
  for (let id = 0; id < size; id++) {
    const type = types[id]!;
    if (type >= 1 && type <= LAST_TOKEN_TYPE) continue;
    throw formatError(file.path, `${key} holds the unknown kind ${type} for token ${id}`);
  }
  return types;
}

function specialTokens(file: GgufFile, tokens: readonly string[], types: ArrayLike<number>) {
  const control = new Map<string, number>(), user_defined = new Map<string, number>();
  let chars = 0;
  for (let id = 0; id < tokens.length; id++) {
    const type = types[id], text = tokens[id]!;
    const is_control = type === TOKEN_TYPES.control || type === TOKEN_TYPES.unknown;
    if (!is_control && type !== TOKEN_TYPES.user_defined) continue;
    if (text === "") {
      throw formatError(file.path, `tokenizer.ggml.token_type gives the empty token ${id} a meaning`);
    }
    (is_control ? control : user_defined).set(text, id);
    chars += text.length;
  }
  if (chars > MAX_SPECIAL_CHARS) {
    throw formatError(
      file.path,
      `the special tokens of tokenizer.ggml.tokens have ${chars} characters in all, more than the limit of ` +
        MAX_SPECIAL_CHARS,
    );
  }
  return { control, user_defined };
}
