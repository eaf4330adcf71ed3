import assert from "node:assert/strict";
import { changedLines, MeasuredTexts } from "./changed_lines.ts";
import { type Content, textContent } from "./content.ts";

/** A content that is read in pieces of a few bytes, and remembers which parts. */
function inPieces(text: string, bytes: number) {
  const whole = textContent(text, { version: "v", modified_ms: 5 });
  const parts: [start: number, end: number][] = [];
  const content: Content = {
    ...whole,
    async *read(start, end) {
      parts.push([start, end]);
      for (let at = start; at < end; at += bytes) yield* whole.read(at, Math.min(end, at + bytes));
    },
  };
  return { content, parts, reads: () => parts.length };
}

type Pieces = ReturnType<typeof inPieces>;

const read = async (content: Content, start = 0, end = content.size_bytes) =>
  await new Response(ReadableStream.from(content.read(start, end))).text();

/** Longer and shorter lines. */
const show = (line: string) => line.replace("a", "").replace("é", "ééé");

const TEXT = "abc\n\né is a letter\r\nwithout an end: é";
const CHANGED = "bc\n\nééé is  letter\r\nwithout n end: ééé";

Deno.test("all and any part of changed lines, wherever the pieces are cut", async () => {
  for (const bytes of [1, 2, 3, 7, 100]) {
    const changed = await changedLines(inPieces(TEXT, bytes).content, {
      show,
      shown_as: "x",
      measured_texts: new MeasuredTexts(),
    });
    const expected = new TextEncoder().encode(CHANGED);
    assert.equal(changed.size_bytes, expected.length);
    assert.equal(await read(changed), CHANGED);
    for (const [start, end] of [[0, 1], [4, 9], [expected.length - 2, expected.length], [3, 3]] as const) {
      const part = await new Response(ReadableStream.from(changed.read(start, end))).bytes();
      assert.deepEqual(part, expected.slice(start, end));
    }
  }
  const empty = await changedLines(inPieces("", 1).content, {
    show,
    shown_as: "x",
    measured_texts: new MeasuredTexts(),
  });
  assert.deepEqual([empty.size_bytes, await read(empty)], [0, ""]);
});

Deno.test("the size of a version is counted once, and its version differs from that of the file", async () => {
  const { content, reads } = inPieces(TEXT, 10), measured_texts = new MeasuredTexts(1);
  const first = await changedLines(content, { show, shown_as: "x", measured_texts });
  const again = await changedLines(content, { show, shown_as: "x", measured_texts });
  assert.deepEqual([reads(), first.size_bytes === again.size_bytes], [1, true]);
  const other = await changedLines(content, { show, shown_as: "y", measured_texts });
  assert.equal(new Set([content, first, other].map(({ version }) => version)).size, 3);
  assert.equal(first.modified_ms, 5);
  // Another version takes the only place.
  await changedLines({ ...content, version: "w" }, { show, shown_as: "x", measured_texts });
  await changedLines(content, { show, shown_as: "x", measured_texts });
  assert.equal(reads(), 3);
});

Deno.test("of a file that grows only the new lines are read, and once for all who ask", async () => {
  const measured_texts = new MeasuredTexts(), text = "abc\né\n", grown = `${text}aé\n`;
  const [one, two] = [text, grown].map((text) => inPieces(text, 2)) as [Pieces, Pieces];
  const sizeOf = async ({ content }: Pieces, version: string) =>
    (await changedLines({ ...content, version, grows: "file" }, { show, shown_as: "x", measured_texts }))
      .size_bytes;
  const bytes = (text: string) => new TextEncoder().encode(text).length;
  const shown = bytes("bc\nééé\n"), more = bytes("ééé\n");
  assert.deepEqual(await Promise.all([sizeOf(one, "1"), sizeOf(one, "1")]), [shown, shown]);
  assert.deepEqual(one.parts, [[0, bytes(text)]]);
  assert.deepEqual(await Promise.all([sizeOf(two, "2"), sizeOf(two, "2")]), [shown + more, shown + more]);
  assert.deepEqual(two.parts, [[bytes(text), bytes(grown)]]);
  // A snapshot from before.
  assert.equal(await sizeOf(one, "1"), shown);
  assert.equal(await sizeOf(two, "2"), shown + more);
});

Deno.test("a part of a long text is read from a place shortly before it, and other work runs meanwhile", async () => {
  const text = Array.from({ length: 60_000 }, (_, i) => `${i} a letter, and é in ${"x".repeat(60)}\n`).join(
    "",
  );
  const expected = new TextEncoder().encode(text.split("\n").map(show).join("\n"));
  const { content, parts } = inPieces(text, 1 << 18), measured_texts = new MeasuredTexts();
  let turns = 0, is_done = false;
  const turn = () => is_done || (turns++, setTimeout(turn, 0));
  turn();
  const changed = await changedLines(content, { show, shown_as: "x", measured_texts });
  is_done = true;
  // Each 32 KiB of lines is a piece of work; half of them is enough to say so.
  assert.ok(turns >= content.size_bytes / (1 << 16), `${turns} turns for ${content.size_bytes} bytes`);
  assert.equal(changed.size_bytes, expected.length);
  for (const start of [0, 1 << 20, 3_000_000, expected.length - 10]) {
    parts.length = 0;
    const end = Math.min(start + 100_000, expected.length);
    const part = await new Response(ReadableStream.from(changed.read(start, end))).bytes();
    assert.deepEqual(part, expected.slice(start, end), `from ${start}`);
    const [[from]] = parts as [[number, number]];
    // The shown text has some 2 % more bytes than the lines.
    assert.ok(from <= start && start - from < 1.1 * (1 << 20) + 0.05 * start, `${from} for ${start}`);
  }
});

Deno.test("a text that could not be read is read again", async () => {
  const measured_texts = new MeasuredTexts(), { content, parts } = inPieces(TEXT, 10);
  const broken: Content = {
    ...content,
    read: () => {
      throw new Error("gone");
    },
  };
  await assert.rejects(changedLines(broken, { show, shown_as: "x", measured_texts }), /gone/);
  const { size_bytes } = await changedLines(content, { show, shown_as: "x", measured_texts });
  assert.deepEqual([size_bytes, parts.length], [new TextEncoder().encode(CHANGED).length, 1]);
});
