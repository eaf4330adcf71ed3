/** JSON and code in coloured pieces. The page shows them as text nodes, so nothing in them can run. */

/** What a piece of a text is, as far as its colour goes. */
export type PieceKind = "plain" | "key" | "string" | "number" | "word" | "comment";

export interface Piece {
  text: string;
  kind: PieceKind;
}

/** Longer texts are shown without colours. */
export const MAX_HIGHLIGHTED_CHARS = 50_000;

type Rules = readonly (readonly [kind: PieceKind, pattern: string])[];

const NUMBER = String.raw`-?\b\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?\b`;

const JSON_RULES: Rules = [
  ["key", String.raw`"(?:[^"\\]|\\.)*"(?=\s*:)`],
  ["string", String.raw`"(?:[^"\\]|\\.)*"`],
  ["number", NUMBER],
  ["word", String.raw`\b(?:true|false|null)\b`],
];

/** Words that Python, JavaScript, TypeScript, Rust, Go, C and shells share enough of. */
const WORDS = [
  ..."and as assert async await break case catch class const continue def del do done elif else enum".split(
    " ",
  ),
  ..."except export extends finally fi fn for from func function global if impl import in interface is".split(
    " ",
  ),
  ..."lambda let match mut new nonlocal not or pass pub raise return self static struct switch then this"
    .split(" "),
  ..."throw try type use var void while with yield None True False true false null undefined".split(" "),
];

/** A text that has no end goes on to the end of its line, so that one quote does not colour the rest. */
const CODE_RULES: Rules = [
  ["comment", String.raw`(?<![^\s;{}()])(?:#|//)[^\n]*|/\*[^]*?(?:\*/|$)`],
  ["string", String.raw`"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)`],
  ["string", String.raw`"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|${"`"}(?:[^${"`"}\\]|\\[^])*${"`"}?`],
  ["number", NUMBER],
  ["word", String.raw`\b(?:${WORDS.join("|")})\b`],
];

function compiled(rules: Rules): RegExp {
  return new RegExp(rules.map(([, pattern]) => `(${pattern})`).join("|"), "g");
}

const JSON_PATTERN = compiled(JSON_RULES), CODE_PATTERN = compiled(CODE_RULES);

function piecesBy(text: string, pattern: RegExp, rules: Rules): Piece[] {
  const pieces: Piece[] = [];
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    if (match.index > end) pieces.push({ text: text.slice(end, match.index), kind: "plain" });
    const rule = rules.findIndex((_, i) => match[i + 1] !== undefined);
    pieces.push({ text: match[0], kind: rules[rule]![0] });
    end = match.index + match[0].length;
  }
  if (end < text.length) pieces.push({ text: text.slice(end), kind: "plain" });
  return pieces;
}

function isJson(text: string): boolean {
  if (!/^\s*[[{]/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Lines that prose does not have. */
const CODE_LINE =
  /^\s*(?:(?:async )?def \w+\(|class \w+[:({]|from [\w.]+ import |import [\w.{*"']|#!\/|#include|(?:export |async )*function\b|(?:export )?(?:const|let|var) \w|(?:pub )?fn \w|(?:if|for|while|with) .*[:{]$|return\b.*;?$|\w+\(.*\);?$|[\w.]+ = )/m;

/** A fenced block of Markdown. */
const FENCE = /(```[^\n]*\n)([^]*?)(```|$)/g;

const code = (text: string) => piecesBy(text, CODE_PATTERN, CODE_RULES);

/** The pieces of a text, which together are the text: of JSON, of code, of fenced blocks in prose, or one of prose. */
export function piecesOf(text: string): Piece[] {
  if (text.length > MAX_HIGHLIGHTED_CHARS) return [{ text, kind: "plain" }];
  if (isJson(text)) return piecesBy(text, JSON_PATTERN, JSON_RULES);
  const pieces: Piece[] = [];
  let end = 0;
  for (const { index, 0: whole, 1: open = "", 2: inner = "", 3: close = "" } of text.matchAll(FENCE)) {
    pieces.push({ text: text.slice(end, index) + open, kind: "plain" }, ...code(inner));
    pieces.push({ text: close, kind: "plain" });
    end = index + whole.length;
  }
  if (end > 0) return [...pieces, { text: text.slice(end), kind: "plain" }];
  return CODE_LINE.test(text) ? code(text) : [{ text, kind: "plain" }];
}
