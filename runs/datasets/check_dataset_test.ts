import assert from "node:assert/strict";
import type { DataKind } from "../../config/algorithms.ts";
import { MAX_DATA_LINE_BYTES } from "../../data/jsonl.ts";
import { readScenarios } from "../../data/scenario.ts";
import { withFolder } from "../../tests/folder.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { checkDataset, type DatasetCheck, ROWS_BETWEEN_STARTS } from "./check_dataset.ts";

const SFT = '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}';
const PAIR = '{"prompt":"q","chosen":"a","rejected":"b"}';
const task = (id: string) => JSON.stringify({ id, user: "u" });

/** Checks a text as a file. */
async function check(
  text: string | Uint8Array<ArrayBuffer>,
  kind: DataKind | "auto" = "auto",
): Promise<DatasetCheck> {
  let found: DatasetCheck;
  await withFolder(async (folder) => {
    const path = `${folder}/x`;
    await Deno.writeFile(path, typeof text === "string" ? new TextEncoder().encode(text) : text);
    found = await checkDataset({ path, kind });
  });
  return found!;
}

Deno.test("the first row whose fields tell a kind decides it", async () => {
  for (
    const [text, kind] of [
      [SFT, "sft"],
      ['{"prompt":"q","completion":"a"}', "sft"],
      ['{"text":"t"}', "sft"],
      [PAIR, "preference"],
      ['{"chosen":[],"rejected":[],"messages":[]}', "preference"],
      [task("a"), "scenarios"],
      [`{"x":1}\nnot json\n${task("a")}\n${SFT}`, "scenarios"],
      ['{"x":1}', null],
      ["not json", null],
    ] as const
  ) assert.equal((await check(text)).kind, kind, text);
  assert.equal((await check(SFT, "preference")).kind, "preference");
});

Deno.test("rows, fields and problems are those of the file's lines", async () => {
  const found = await check(`\ufeff${SFT}\r\n{"messages":[]}\r\nx\r\n{"text":"t","id":7}`);
  assert.deepEqual(found, {
    kind: "sft",
    rows: 4,
    invalid_rows: 2,
    fields: ["messages", "text", "id"],
    problems: [
      { line: 2, message: "messages: must be a list of at least 1 entry, not an empty one" },
      { line: 3, message: `not JSON (Unexpected token 'x', "x" is not valid JSON)` },
    ],
    starts: [{ line: 1, offset: 0 }],
    last_line: 4,
  });
  const other = await check(`${task("a")}\n${SFT}\n${task("a")}`);
  assert.deepEqual(other.problems.map(({ line }) => line), [2, 3]);
  assert.equal(other.problems[1]!.message, 'the id "a" is that of line 1');
  const unknown = await check('{"x":1}');
  assert.equal(
    unknown.problems[0]!.message,
    "its fields are those of no kind: expected scenarios with {id, user}, sft with {messages} or " +
      "{prompt, completion} or {text}, preference with {chosen, rejected}",
  );
});

Deno.test("the problems are those that training reports", () =>
  withFolder(async (folder) => {
    const path = `${folder}/tasks.jsonl`;
    const lines = [task("a"), "{", task("a"), '{"id":"b"}', task("c")];
    await Deno.writeTextFile(path, lines.join("\n"));
    const error = await readScenarios(path).then(() => null, (error) => error);
    const reported = (error.details.problems as { line: number; message: string }[]).map((
      { line, message },
    ) => ({
      line,
      message: message.replace(`Cannot read ${path}:${line}: `, ""),
    }));
    assert.deepEqual((await checkDataset({ path, kind: "auto" })).problems, reported);
  }));

Deno.test("an example without a turn to train is a problem", async () => {
  const user = { role: "user", content: "a" }, turn = { role: "assistant", content: "b" };
  const rows = [{ messages: [user] }, { prompt: [turn], completion: [user] }, { messages: [user, turn] }];
  const { invalid_rows, problems } = await check(rows.map((row) => JSON.stringify(row)).join("\n"));
  const message = "a conversation without an assistant message has nothing to train";
  assert.deepEqual([invalid_rows, problems], [2, [{ line: 1, message }, { line: 2, message }]]);
});

Deno.test("the first 20 problems are kept, and all are counted", async () => {
  const found = await check("x\n".repeat(50));
  assert.deepEqual([found.rows, found.invalid_rows, found.problems.length], [50, 50, 20]);
});

Deno.test("bytes that are no text are problems of their lines", async () => {
  const bytes = new TextEncoder().encode(`${SFT}\n${SFT}\n${SFT}`);
  bytes[SFT.length + 10] = 0xff;
  const found = await check(bytes);
  assert.deepEqual([found.rows, found.problems], [3, [{ line: 2, message: "the bytes are not UTF-8" }]]);
});

Deno.test("a line that is too long is a problem of its line, and the rest is read", async () => {
  const long = `{"text":"${"x".repeat(MAX_DATA_LINE_BYTES - 10)}"}`;
  const found = await check(`${SFT}\n${long}\n{"text":"${"x".repeat(MAX_DATA_LINE_BYTES - 11)}"}\n${SFT}`);
  const message = `the line is longer than ${MAX_DATA_LINE_BYTES} bytes`;
  assert.deepEqual([long.length, found.rows, found.problems], [MAX_DATA_LINE_BYTES + 1, 4, [{
    line: 2,
    message,
  }]]);
});

Deno.test("every 1024th row has a place in the index", async () => {
  const { starts, rows } = await check('{"text":"t"}\n'.repeat(2 * ROWS_BETWEEN_STARTS + 1));
  assert.equal(rows, 2049);
  assert.deepEqual(starts, [0, 1024, 2048].map((i) => ({ line: i + 1, offset: 13 * i })));
});

Deno.test("the committed examples have no problem", async () => {
  const rows = async (name: string) => {
    const { kind, invalid_rows, problems } = await checkDataset({
      path: await fixturePath(name),
      kind: "auto",
    });
    return [kind, invalid_rows, problems];
  };
  assert.deepEqual(await rows("models/tiny-agent/sft-traces.jsonl"), ["sft", 0, []]);
  assert.deepEqual(await rows("models/tiny-agent/scenarios.train.jsonl"), ["scenarios", 0, []]);
});

Deno.test("names of prototypes are fields like others", async () => {
  const found = await check('{"__proto__":{"a":1},"constructor":1,"text":"t"}');
  assert.deepEqual([found.kind, found.fields], ["sft", ["__proto__", "constructor", "text"]]);
  assert.equal((await check('{"__proto__":{"text":"t"}}')).kind, null);
});
