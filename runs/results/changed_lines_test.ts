import assert from "node:assert/strict";
import { changedLines, KnownSizes } from "./changed_lines.ts";
import { type Content, textContent } from "./content.ts";

/** A content that is read in pieces of a few bytes, and counts how often. */
function inPieces(text: string, bytes: number): { content: Content; reads: () => number } {
  const whole = textContent(text, { version: "v", modified_ms: 5 });
  let reads = 0;
  const content: Content = {
    ...whole,
    async *read(start, end) {
      reads++;
      for (let at = start; at < end; at += bytes) yield* whole.read(at, Math.min(end, at + bytes));
    },
  };
  return { content, reads: () => reads };
}

const read = async (content: Content, start = 0, end = content.size_bytes) =>
  await new Response(ReadableStream.from(content.read(start, end))).text();

/** Longer and shorter lines. */
const show = (line: string) => line.replace("a", "").replace("é", "ééé");

const TEXT = "abc\n\né is a letter\r\nwithout an end: é";
const CHANGED = "bc\n\nééé is  letter\r\nwithout n end: ééé";

Deno.test("all and any part of changed lines, wherever the pieces are cut", async () => {
  for (const bytes of [1, 2, 3, 7, 100]) {
    const changed = await changedLines(inPieces(TEXT, bytes).content, { show, sizes: new KnownSizes() });
    const expected = new TextEncoder().encode(CHANGED);
    assert.equal(changed.size_bytes, expected.length);
    assert.equal(await read(changed), CHANGED);
    for (const [start, end] of [[0, 1], [4, 9], [expected.length - 2, expected.length], [3, 3]] as const) {
      const part = await new Response(ReadableStream.from(changed.read(start, end))).bytes();
      assert.deepEqual(part, expected.slice(start, end));
    }
  }
  const empty = await changedLines(inPieces("", 1).content, { show, sizes: new KnownSizes() });
  assert.deepEqual([empty.size_bytes, await read(empty)], [0, ""]);
});

Deno.test("the size of a version is counted once, and its version differs from that of the file", async () => {
  const { content, reads } = inPieces(TEXT, 10), sizes = new KnownSizes(1);
  const first = await changedLines(content, { show, sizes });
  const again = await changedLines(content, { show, sizes });
  assert.deepEqual([reads(), first.size_bytes === again.size_bytes], [1, true]);
  assert.notEqual(first.version, content.version);
  assert.equal(first.modified_ms, 5);
  // Another version takes the only place.
  await changedLines({ ...content, version: "w" }, { show, sizes });
  await changedLines(content, { show, sizes });
  assert.equal(reads(), 3);
});
