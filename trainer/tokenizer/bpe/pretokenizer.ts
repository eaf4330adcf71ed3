/** Splits text into the words that byte-pair merges never cross. */

// White space as in Unicode. JavaScript's `\s` differs: it lacks U+0085 and has U+FEFF.
const SPACE = "\\p{White_Space}";

/** After a word: white space without its last character, which belongs to the next word, or all of it at the end. */
const SPACES = `|${SPACE}+(?!\\P{White_Space})|${SPACE}+`;

/** `'s`, `'LL` and so on; one punctuation mark before letters; some digits; other marks with following line ends. */
function cl100k(digits: string): string {
  return "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]" +
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+" +
    `|${digits}` +
    `| ?[^${SPACE}\\p{L}\\p{N}]+[\\r\\n]*` +
    `|${SPACE}*[\\r\\n]+` +
    SPACES;
}

const QWEN2 = cl100k("\\p{N}");
const LLAMA3 = cl100k("\\p{N}{1,3}");

const GPT2 = "'s|'t|'re|'ve|'m|'ll|'d" +
  "| ?\\p{L}+" +
  "| ?\\p{N}+" +
  `| ?[^${SPACE}\\p{L}\\p{N}]+` +
  SPACES;

const SINGLE_DIGITS = "\\p{N}|\\P{N}+";
const MARKS = "[\\p{P}$+<=>^~|]+|[^\\p{P}$+<=>^~|]+";
/** Numbers by themselves, and three ASCII digits at a time. */
const DIGITS_BY_THREE = "\\P{N}+|[0-9]{3}|(?:(?![0-9]{3})\\p{N})+";

/** How a vocabulary splits text. */
export interface Pretokenizer {
  /** Each pattern splits the pieces of the previous one; its matches cover every text without gaps. */
  patterns: readonly [RegExp, ...RegExp[]];
  /** Whether a word that is a token is not split further. */
  takes_whole_words: boolean;
  /** Whether plain text starts with the begin token when the file does not say. */
  adds_bos: boolean;
}

function splitting(
  [first, ...others]: [string, ...string[]],
  flags: Partial<Pretokenizer> = {},
): Pretokenizer {
  const compile = (pattern: string) => new RegExp(pattern, "gu");
  return {
    patterns: [compile(first), ...others.map(compile)],
    takes_whole_words: false,
    adds_bos: false,
    ...flags,
  };
}

const qwen2 = splitting([QWEN2]);
const llama3 = splitting([LLAMA3], { takes_whole_words: true, adds_bos: true });
const single_digits = splitting([SINGLE_DIGITS, GPT2]);

/** By the value of `tokenizer.ggml.pre`. @source llama.cpp, `llm_tokenizer_bpe` and `llama_vocab::impl::load`. */
const PRETOKENIZERS_BY_NAME: Readonly<Record<string, Pretokenizer>> = {
  "qwen2": qwen2,
  "deepseek-r1-qwen": qwen2,
  "stablelm2": qwen2,
  "gpt-2": splitting([GPT2]),
  "llama-bpe": llama3,
  "llama3": llama3,
  "llama-v3": llama3,
  "smaug-bpe": splitting([LLAMA3]),
  "smollm": single_digits,
  "starcoder": single_digits,
  "default": splitting([MARKS, GPT2, DIGITS_BY_THREE]),
};

/** The values of `tokenizer.ggml.pre` that this program knows. */
export const PRETOKENIZERS: readonly string[] = Object.keys(PRETOKENIZERS_BY_NAME);

/** A pre-tokenizer by its name; null when the name is not known. */
export function pretokenizerNamed(name: string): Pretokenizer | null {
  return Object.hasOwn(PRETOKENIZERS_BY_NAME, name) ? PRETOKENIZERS_BY_NAME[name]! : null;
}

/** Calls back with the words of a text from left to right; together they are the text. */
export function eachWord(text: string, { patterns }: Pretokenizer, visit: (word: string) => void): void {
  let pieces = [text];
  for (const pattern of patterns.slice(0, -1)) pieces = pieces.flatMap((piece) => piece.match(pattern) ?? []);
  // A long text has many words, so they are not all in memory at once.
  for (const piece of pieces) for (const [word] of piece.matchAll(patterns.at(-1)!)) visit(word);
}
