import assert from "node:assert/strict";
import { withFolder } from "../../tests/folder.ts";
import { offsetBefore } from "./log_place.ts";

const LINES = 3000;

/** A log with short and long lines, some of them longer than what is read at once. */
function log(): { text: string; starts: number[]; longest: number } {
  const starts = [0];
  let text = "", longest = 0;
  for (let seq = 1; seq <= LINES; seq++) {
    const length = seq % 500 === 0 ? 200_000 : seq * 7919 % 900;
    const line = JSON.stringify({ seq, kind: "log", message: "x".repeat(length) }) + "\n";
    text += line;
    longest = Math.max(longest, line.length);
    starts.push(text.length);
  }
  return { text, starts, longest };
}

Deno.test("a place in a long log is found at the start of a line, and near", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/events.jsonl`, { text, starts, longest } = log();
    await Deno.writeTextFile(path, text);
    for (const seq of [0, 1, 2, 17, 499, 500, 501, 1234, 2500, LINES - 1, LINES]) {
      const offset = await offsetBefore(path, { seq, end: text.length }), next = starts[seq]!;
      assert.ok(starts.includes(offset), `${seq}: a line begins at ${offset}`);
      assert.ok(offset <= next && next - offset <= (1 << 16) + longest, `${seq}: ${offset} is near ${next}`);
    }
    assert.equal(await offsetBefore(`${folder}/absent`, { seq: 0, end: 0 }), 0);
  });
});

Deno.test("damaged lines do not mislead the search", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/events.jsonl`, { text, starts } = log();
    const damaged = text.split("\n").map((line, i) => i % 3 === 1 ? line.replace("{", "[") : line).join("\n");
    await Deno.writeTextFile(path, damaged);
    for (const seq of [3, 999, 1500, 2700]) {
      const offset = await offsetBefore(path, { seq, end: text.length });
      assert.ok(starts.includes(offset) && offset <= starts[seq]!, `${seq}: ${offset}`);
    }
  });
});
