/** Splits text into the words that byte-pair merges never cross. */

// White space is Unicode's, which `\s` of JavaScript is not: it lacks U+0085 and has U+FEFF.
const SPACE = "\\p{White_Space}";

/** `'s`, `'LL` and so on; one mark before letters; digits one by one. @source llama.cpp, `LLAMA_VOCAB_PRE_TYPE_QWEN2`. */
const QWEN2 = "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]" +
  "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+" +
  "|\\p{N}" +
  `| ?[^${SPACE}\\p{L}\\p{N}]+[\\r\\n]*` +
  `|${SPACE}*[\\r\\n]+` +
  `|${SPACE}+(?!\\P{White_Space})` +
  `|${SPACE}+`;

/** @source llama.cpp, `LLAMA_VOCAB_PRE_TYPE_GPT2`. */
const GPT2 = "'s|'t|'re|'ve|'m|'ll|'d" +
  "| ?\\p{L}+" +
  "| ?\\p{N}+" +
  `| ?[^${SPACE}\\p{L}\\p{N}]+` +
  `|${SPACE}+(?!\\P{White_Space})` +
  `|${SPACE}+`;

/** By the value of `tokenizer.ggml.pre`. */
const PATTERNS: Readonly<Record<string, string>> = {
  "qwen2": QWEN2,
  "deepseek-r1-qwen": QWEN2,
  "gpt-2": GPT2,
};

/** The values of `tokenizer.ggml.pre` that this program knows. */
export const PRETOKENIZERS: readonly string[] = Object.keys(PATTERNS);

/** The pattern of a pre-tokenizer; its matches cover every text without gaps. Null when the name is not known. */
export function pretokenizerPattern(name: string): RegExp | null {
  return Object.hasOwn(PATTERNS, name) ? new RegExp(PATTERNS[name]!, "gu") : null;
}
