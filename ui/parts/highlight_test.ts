import assert from "node:assert/strict";
import fc from "fast-check";
import { MAX_HIGHLIGHTED_CHARS, piecesOf } from "./highlight.ts";

/** The coloured pieces as `kind:text`. */
const coloured = (text: string) =>
  piecesOf(text).filter(({ kind }) => kind !== "plain").map(({ kind, text }) => `${kind}:${text}`);

Deno.test("JSON has keys, strings, numbers and words", () => {
  assert.deepEqual(coloured('{"a": ["b\\"", -1.5e3, true, null]}'), [
    ...['key:"a"', 'string:"b\\""', "number:-1.5e3", "word:true", "word:null"],
  ]);
});

Deno.test("code has comments, strings, numbers and words, and an open quote ends with its line", () => {
  assert.deepEqual(coloured("def f(a):\n    return 'x' + a[42]  # it's\n"), [
    ...["word:def", "word:return", "string:'x'", "number:42", "comment:# it's"],
  ]);
  assert.deepEqual(coloured('let url = "http://a"; // note\nconst b = "open\nlet c'), [
    ...["word:let", 'string:"http://a"', "comment:// note", "word:const", 'string:"open', "word:let"],
  ]);
});

Deno.test("prose is plain, but its fenced blocks are code", () => {
  assert.deepEqual(coloured("Return the word for 3 of them, or don't."), []);
  assert.deepEqual(coloured("Try this for 3:\n```py\nx = 3\n```\nfor 4 more"), ["number:3"]);
});

Deno.test("the pieces are the whole text, whatever it is", () => {
  const parts = fc.constantFrom(
    '"',
    "'",
    "`",
    "\\",
    "\n",
    "# a",
    "/*",
    "def f(",
    "```",
    "{",
    "}",
    "1",
    " ",
    "é",
  );
  fc.assert(fc.property(fc.array(parts).map((all) => all.join("")), (text) => {
    assert.equal(piecesOf(text).map(({ text }) => text).join(""), text);
  }));
});

Deno.test("a text above the limit is not coloured", () => {
  const long = `[${"1,".repeat(MAX_HIGHLIGHTED_CHARS / 2)}1]`;
  assert.deepEqual(piecesOf(long).map(({ kind }) => kind), ["plain"]);
  assert.deepEqual(coloured("[1]"), ["number:1"]);
});
