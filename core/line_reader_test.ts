import assert from "node:assert/strict";
import { LineReader } from "./line_reader.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

/** A reader of a stream that delivers these pieces. */
const readerOf = (pieces: Uint8Array[], max_bytes = 8) =>
  new LineReader(ReadableStream.from(pieces), max_bytes);

async function linesOf(pieces: Uint8Array[]): Promise<string[]> {
  const reader = readerOf(pieces), lines: string[] = [];
  for (let line = await reader.next(); line !== null; line = await reader.next()) lines.push(line);
  return lines;
}

Deno.test("lines are those of the text, however it arrives", async () => {
  const text = bytes("ab\n\nçé\n🐢\nno end");
  const expected = ["ab", "", "çé", "🐢"];
  assert.deepEqual(await linesOf([text]), expected);
  assert.deepEqual(await linesOf([...text].map((byte) => Uint8Array.of(byte))), expected);
  assert.deepEqual(await linesOf([]), []);
});

Deno.test("a line of the largest size is read, and a longer one ends the reading in time", async () => {
  const whole = readerOf([bytes("12345"), bytes("678\n9\n")]);
  assert.deepEqual([await whole.next(), await whole.next()], ["12345678", "9"]);
  await assert.rejects(readerOf([bytes("123456789\n")]).next(), /more than 8 bytes/);
  let sent = 0;
  async function* flood() {
    while (true) {
      sent++;
      yield bytes("1234");
    }
  }
  await assert.rejects(new LineReader(ReadableStream.from(flood()), 8).next(), /more than 8 bytes/);
  assert.ok(sent < 6, String(sent));
});
