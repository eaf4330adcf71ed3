import assert from "node:assert/strict";
import { withFolder } from "../tests/folder.ts";
import { type LineStart, readAllLines } from "./jsonl.ts";

/** All lines of a text as `[line, text or reason]`. */
async function allLines(text: string | Uint8Array<ArrayBuffer>, max_line_bytes = 100) {
  const found: [number, string][] = [], starts: LineStart[] = [];
  await withFolder(async (folder) => {
    const path = `${folder}/x.jsonl`;
    await Deno.writeFile(path, typeof text === "string" ? new TextEncoder().encode(text) : text);
    const onStart = (start: LineStart) => starts.push(start);
    for await (const line of readAllLines(path, { max_line_bytes, name: "x", onStart })) {
      found.push([line.line, "text" in line ? line.text : line.error.message]);
    }
    // Reading from every line's place gives the lines from there on.
    for (const from of starts) {
      const rest: [number, string][] = [];
      for await (const line of readAllLines(path, { max_line_bytes, name: "x", from })) {
        rest.push([line.line, "text" in line ? line.text : line.error.message]);
      }
      assert.deepEqual(rest, found.filter(([line]) => line >= from.line), JSON.stringify([text, from]));
    }
  });
  return { found, starts };
}

Deno.test("reading goes on after lines that cannot be read", async () => {
  const { found } = await allLines(`a\n${"x".repeat(101)}\nb\n\n\nc\n\n`);
  assert.deepEqual(found, [
    [1, "a"],
    [2, "Cannot read x:2: the line is longer than 100 bytes"],
    [3, "b"],
    [4, "Cannot read x:4: the line is blank"],
    [6, "c"],
  ]);
  const bytes = new Uint8Array([0x61, 10, 0xff, 10, 0x62]);
  assert.deepEqual((await allLines(bytes)).found, [
    [1, "a"],
    [2, "Cannot read x:2: the bytes are not UTF-8"],
    [3, "b"],
  ]);
});

Deno.test("the longest line has as many bytes as the limit", async () => {
  const long = "é".repeat(50);
  assert.deepEqual((await allLines(`${long}\n${long}x\n`)).found, [
    [1, long],
    [2, "Cannot read x:2: the line is longer than 100 bytes"],
  ]);
});

Deno.test("a line's place is the offset of its first byte, after any line end", async () => {
  assert.deepEqual((await allLines("ab\r\ncd\nef\rgh")).starts, [
    { line: 1, offset: 0 },
    { line: 2, offset: 4 },
    { line: 3, offset: 7 },
    { line: 4, offset: 10 },
  ]);
  assert.deepEqual((await allLines("é\n\nb")).starts, [{ line: 1, offset: 0 }, { line: 3, offset: 4 }]);
  // The first read ends between CR and LF.
  const long = "x".repeat((1 << 16) - 1);
  assert.deepEqual((await allLines(`${long}\r\nb`, 1 << 16)).starts[1], { line: 2, offset: (1 << 16) + 1 });
});
