import assert from "node:assert/strict";
import { ServiceError } from "../../../core/errors.ts";
import { MAX_REPORTED_PROBLEMS } from "../../../data/problems.ts";
import { fixturePath } from "../../../tests/fixture.ts";
import { openGguf } from "../../../trainer/formats/gguf.ts";
import { ChatTemplate } from "../../../trainer/tokenizer/chat_template.ts";
import { Renderer } from "../../../trainer/tokenizer/renderer.ts";
import { readTokenizer } from "../../../trainer/tokenizer/read_tokenizer.ts";
import { readSftRows, type SftRowsOptions } from "./sft_rows.ts";

const file = await openGguf(await fixturePath("models/tiny-agent-q8_0.gguf"));
const renderer = new Renderer(readTokenizer(file), ChatTemplate.fromGguf(file));
file.close();
const traces = await fixturePath("models/tiny-agent/sft-traces.jsonl");
const options: SftRowsOptions = { renderer, train_on: "assistant", variables: {}, ctx: 1024 };

async function withRows<T>(
  rows: readonly (string | object)[],
  body: (path: string) => Promise<T>,
): Promise<T> {
  const path = await Deno.makeTempFile({ suffix: ".jsonl" });
  try {
    await Deno.writeTextFile(
      path,
      rows.map((row) => typeof row === "string" ? row : JSON.stringify(row)).join("\n"),
    );
    return await body(path);
  } finally {
    await Deno.remove(path);
  }
}

const read = (rows: readonly (string | object)[], more: Partial<SftRowsOptions> = {}) =>
  withRows(rows, (path) => readSftRows(path, { ...options, ...more }));

const refused = (rows: readonly (string | object)[]): Promise<ServiceError> =>
  read(rows).then(() => assert.fail("the rows were accepted"), (error) => error);

Deno.test("traces have the ids and masks of the goldens", async () => {
  const golden = JSON.parse(await Deno.readTextFile(await fixturePath("models/tiny-agent/golden-lora.json")));
  const data = await readSftRows(traces, options);
  assert.equal(data.rows, 200);
  assert.equal(data.sequences.length, 200);
  assert.deepEqual(data.truncated, []);
  for (const { trace, ids, mask } of golden.batch) {
    const sequence = data.sequences[trace]!;
    assert.equal(sequence.line, trace + 1);
    assert.deepEqual([...sequence.tokens], ids);
    assert.deepEqual([...sequence.loss_mask], mask);
  }
});

Deno.test("arguments and tools as JSON text give the same tokens as objects", async () => {
  const row = JSON.parse((await Deno.readTextFile(traces)).split("\n")[2]!);
  const plain = await read([row]);
  const text = structuredClone(row);
  for (const message of text.messages) {
    for (const call of message.tool_calls ?? []) {
      call.function.arguments = JSON.stringify(call.function.arguments);
    }
  }
  text.tools = JSON.stringify(text.tools);
  assert.deepEqual((await read([text])).sequences, plain.sequences);
});

Deno.test("a prompt and its completion train only the completion, in both forms", async () => {
  const question = { role: "user", content: "hi" }, answer = { role: "assistant", content: "yes" };
  const [chat] = (await read([{ prompt: [question], completion: [answer] }])).sequences;
  const [whole] = (await read([{ messages: [question, answer] }])).sequences;
  assert.deepEqual(chat, whole);
  const earlier = { role: "assistant", content: "earlier" };
  const [two] = (await read([{ prompt: [question, earlier, question], completion: [answer] }])).sequences;
  assert.equal(two!.trained_tokens, whole!.trained_tokens);
  const [plain] = (await read([{ prompt: "a b", completion: " c" }])).sequences;
  const { tokenizer } = renderer;
  const trained = [...plain!.tokens].filter((_, i) => plain!.loss_mask[i]);
  assert.deepEqual(trained, [...tokenizer.encode(" c", { special: true }), tokenizer.eos_id]);
  const [text] = (await read([{ text: "a b c" }])).sequences;
  assert.equal(text!.trained_tokens, text!.tokens.length - 1);
});

Deno.test("train_on chooses among the turns", async () => {
  const row = (await Deno.readTextFile(traces)).split("\n")[2]!;
  const count = async (train_on: SftRowsOptions["train_on"]) =>
    (await read([row], { train_on })).sequences[0]!.trained_tokens;
  const [last, assistant, everything] = [await count("last"), await count("assistant"), await count("all")];
  assert.ok(0 < last && last < assistant && assistant < everything);
});

Deno.test("a row longer than ctx is cut and named", async () => {
  const row = (await Deno.readTextFile(traces)).split("\n")[0]!;
  const long = await read([row], { ctx: 340 });
  assert.deepEqual(long.truncated, [1]);
  const whole = (await read([row])).sequences[0]!;
  assert.ok(whole.tokens.length > 340);
  assert.deepEqual(long.sequences[0]!.tokens, whole.tokens.slice(0, 340));
  assert.deepEqual(long.sequences[0]!.loss_mask, whole.loss_mask.slice(0, 340));
  await assert.rejects(read([row], { ctx: 32 }), /no row in it has a token to train/);
});

Deno.test("max_rows reads no further", async () => {
  assert.equal((await read([{ text: "a" }, "broken"], { max_rows: 1 })).rows, 1);
});

for (
  const [name, row, reason] of [
    ["no JSON", "{", /not JSON/],
    ["no object", "[1]", /not a JSON object/],
    ["no known form", { question: "a" }, /expected \{messages\}/],
    [
      "an unknown role",
      { messages: [{ role: "robot", content: "a" }] },
      /messages\.0\.role: must be "system" or .* or "tool", not "robot"$/,
    ],
    ["nothing to train", { messages: [{ role: "user", content: "a" }] }, /without an assistant message/],
    ["broken tools", { messages: [{ role: "assistant", content: "a" }], tools: "{" }, /tools/],
    ["arguments that are no object", {
      messages: [{ role: "assistant", tool_calls: [{ function: { name: "f", arguments: "[1]" } }] }],
    }, /arguments of its call of f/],
  ] as const
) {
  Deno.test(`an invalid row is refused with file and line: ${name}`, async () => {
    const error = await refused([{ text: "fine" }, row]);
    assert.equal(error.code, "data_invalid");
    assert.match(error.message, /\.jsonl:2: /);
    assert.match(error.message, reason);
  });
}

Deno.test("all invalid lines are listed, up to a limit", async () => {
  const error = await refused([{ text: "a" }, "x", { text: "b" }, "y"]);
  assert.deepEqual((error.details.problems as { line: number }[]).map(({ line }) => line), [2, 4]);
  const many = await refused(Array.from({ length: 50 }, () => "x"));
  assert.equal((many.details.problems as unknown[]).length, MAX_REPORTED_PROBLEMS);
});
