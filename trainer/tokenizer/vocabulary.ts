/** The vocabulary of a GGUF file, checked: tokens, their kinds, merges and the ids with a meaning. */

import { ServiceError } from "../../core/errors.ts";
import type { GgufFile } from "../formats/gguf.ts";
import { CHARACTER_OF_BYTE } from "./byte_table.ts";
import type { MergeTable } from "./merges.ts";
import { pretokenizerPattern, PRETOKENIZERS } from "./pretokenizer.ts";

/** The numbers of `tokenizer.ggml.token_type`. */
const CONTROL = 3;
const USER_DEFINED = 4;
const LAST_TOKEN_TYPE = 6;

/** Tokens that end a turn or a text, by their text, in the vocabularies where metadata names only one. */
const END_TEXTS = [
  "<|im_end|>",
  "<|endoftext|>",
  "<|eot_id|>",
  "<|eom_id|>",
  "<|end|>",
  "<|end_of_text|>",
  "<end_of_turn>",
];
const END_KEYS = ["eos_token_id", "eot_token_id", "eom_token_id"];

export interface Vocabulary {
  /** The text of each id; for plain tokens in the byte alphabet. */
  tokens: readonly string[];
  /** Control and user-defined tokens by text. */
  control: ReadonlyMap<string, number>;
  user_defined: ReadonlyMap<string, number>;
  /** The id of each byte. */
  bytes: Uint32Array;
  merges: MergeTable;
  pattern: RegExp;
  bos_id: number | null;
  eos_id: number | null;
  /** Whether plain text begins with `bos_id`; rendered templates bring their own. */
  adds_bos: boolean;
  /** Every id that ends a generation. */
  end_ids: number[];
}

/**
 * Reads the vocabulary of a model.
 *
 * @throws {ServiceError} `format_invalid` that names file and key; `not_built` for another tokenizer.
 */
export function readVocabulary(file: GgufFile): Vocabulary {
  const fail = (reason: string): never => {
    throw new ServiceError("format_invalid", `Cannot read ${file.path}: ${reason}`, { path: file.path });
  };
  const pattern = readPattern(file);
  const tokens = file.getStrings("tokenizer.ggml.tokens");
  const ids = new Map<string, number>();
  for (let id = 0; id < tokens.length; id++) ids.set(tokens[id]!, id);
  if (ids.size !== tokens.length) {
    const twice = tokens.findIndex((text, id) => ids.get(text) !== id);
    fail(`tokenizer.ggml.tokens holds ${JSON.stringify(tokens[twice])} twice`);
  }
  const bytes = Uint32Array.from(CHARACTER_OF_BYTE, (character, byte) => {
    return ids.get(character) ?? fail(`tokenizer.ggml.tokens has no token for the byte ${byte}`);
  });
  const { control, user_defined } = readKinds(file, tokens);
  const idOf = (key: string) => {
    if (!file.metadata.has(`tokenizer.ggml.${key}`)) return null;
    const id = file.getUint(`tokenizer.ggml.${key}`);
    return id < tokens.length
      ? id
      : fail(`tokenizer.ggml.${key} is ${id}, but there are ${tokens.length} tokens`);
  };
  const ends = [...END_KEYS.map(idOf), ...END_TEXTS.map((text) => control.get(text) ?? null)];
  return {
    tokens,
    control,
    user_defined,
    bytes,
    merges: readMerges(file, ids),
    pattern,
    bos_id: idOf("bos_token_id"),
    eos_id: idOf("eos_token_id"),
    adds_bos: file.getBool("tokenizer.ggml.add_bos_token", false),
    end_ids: [...new Set(ends.filter((id) => id !== null))].sort((a, b) => a - b),
  };
}

function readPattern(file: GgufFile): RegExp {
  const model = file.getString("tokenizer.ggml.model");
  const pre = file.getString("tokenizer.ggml.pre", "default");
  const pattern = model === "gpt2" ? pretokenizerPattern(pre) : null;
  if (pattern) return pattern;
  throw new ServiceError(
    "not_built",
    `Cannot read the tokenizer of ${file.path}: tokenizer.ggml.model ${model} with pre ${pre} is not supported; ` +
      `supported are gpt2 with ${PRETOKENIZERS.join(", ")}`,
    { path: file.path, model, pre },
  );
}

function readKinds(file: GgufFile, tokens: readonly string[]) {
  const key = "tokenizer.ggml.token_type";
  const control = new Map<string, number>(), user_defined = new Map<string, number>();
  if (!file.metadata.has(key)) return { control, user_defined };
  const kinds = file.getNumbers(key);
  const fail = (reason: string) => {
    throw new ServiceError("format_invalid", `Cannot read ${file.path}: ${key} ${reason}`, {
      path: file.path,
    });
  };
  if (kinds.length !== tokens.length) fail(`has ${kinds.length} items for ${tokens.length} tokens`);
  for (let id = 0; id < tokens.length; id++) {
    const kind = kinds[id]!;
    if (kind === CONTROL) control.set(tokens[id]!, id);
    else if (kind === USER_DEFINED) user_defined.set(tokens[id]!, id);
    else if (kind < 1 || kind > LAST_TOKEN_TYPE) fail(`holds the unknown kind ${kind} for token ${id}`);
    if ((kind === CONTROL || kind === USER_DEFINED) && tokens[id] === "") {
      fail(`gives the empty token ${id} a meaning`);
    }
  }
  return { control, user_defined };
}

function readMerges(file: GgufFile, ids: ReadonlyMap<string, number>): MergeTable {
  const merges = file.getStrings("tokenizer.ggml.merges");
  const ranks = new Map<number, number>(), results = new Uint32Array(merges.length), size = ids.size;
  for (let rank = 0; rank < merges.length; rank++) {
    const merge = merges[rank]!;
    // Neither part is empty and both may hold spaces only in vocabularies that are not byte-level.
    const space = merge.indexOf(" ", 1);
    const left = ids.get(merge.slice(0, space)), right = ids.get(merge.slice(space + 1));
    const result = ids.get(merge.slice(0, space) + merge.slice(space + 1));
    if (space < 0 || left === undefined || right === undefined || result === undefined) {
      const message = `tokenizer.ggml.merges item ${rank}, ${
        JSON.stringify(merge)
      }, is no pair of tokens that makes one`;
      throw new ServiceError("format_invalid", `Cannot read ${file.path}: ${message}`, {
        path: file.path,
        rank,
      });
    }
    results[rank] = result;
    const pair = left * size + right;
    if (!ranks.has(pair)) ranks.set(pair, rank);
  }
  return { size, ranks, results };
}
