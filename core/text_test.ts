import assert from "node:assert/strict";
import { formatBytes, indented, inline, jsonText, printable } from "./text.ts";

/** Escape, C1's CSI, DEL, right-to-left override, zero-width space, line separator, a tag. */
const UNSAFE = [
  "\x1b",
  "\x9b",
  "\x7f",
  "\r",
  "\b",
  "\u202e",
  "\u2066",
  "\u200b",
  "\u2028",
  "\ufeff",
  "\u{e0041}",
];

Deno.test("control and invisible characters are shown as a mark, all other text stays", () => {
  for (const char of UNSAFE) assert.equal(printable(`a${char}b`), "a�b", JSON.stringify(char));
  // Persian with a non-joiner, a family emoji with joiners, Hebrew with a mark, tabs and lines.
  for (const text of ["می\u200cخواهم", "👨\u200d👩\u200d👧", "א\u200fב", "a\tb\nc", "naïve 漢字 𝔸"]) {
    assert.equal(printable(text), text);
  }
});

Deno.test("untrusted text stays on one line, or is indented under its entry", () => {
  assert.equal(inline("a\nrun completed\r\nb\tc\rd"), "a⏎run completed⏎b c⏎d");
  assert.equal(indented("first\nsecond\nthird"), "first\n  second\n  third");
});

Deno.test("JSON escapes control characters and keeps the value", () => {
  const value = { [`key${UNSAFE.join("")}`]: UNSAFE, text: "a\nb\u200c", lone: "\ud800", n: [1.5, null] };
  for (const indent of [undefined, 2]) {
    const text = jsonText(value, indent);
    assert.equal(printable(text), text);
    assert.deepEqual(JSON.parse(text), value);
  }
  assert.equal(jsonText("\u{e0041}\x9b"), '"\\udb40\\udc41\\u009b"');
});

Deno.test("bytes are shown in the largest unit with a number of at least 1", () => {
  assert.deepEqual([0, 1023, 1024, 1_572_864, 2 ** 31].map(formatBytes), [
    "0 B",
    "1023 B",
    "1.0 KiB",
    "1.5 MiB",
    "2.0 GiB",
  ]);
});
