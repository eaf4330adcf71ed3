import assert from "node:assert/strict";
import { ServiceError } from "../../../core/errors.ts";
import { fixturePath, readFixtureText } from "../../../tests/fixture.ts";
import { openGguf } from "../../../trainer/formats/gguf.ts";
import { ChatTemplate } from "../../../trainer/tokenizer/chat_template.ts";
import { readTokenizer } from "../../../trainer/tokenizer/read_tokenizer.ts";
import { Renderer } from "../../../trainer/tokenizer/renderer.ts";
import { type PairRowsOptions, pairSamples, pairTokens, readPairRows } from "./pair_rows.ts";

const file = await openGguf(await fixturePath("models/tiny-agent-q8_0.gguf"));
const renderer = new Renderer(readTokenizer(file), ChatTemplate.fromGguf(file));
/** Its template removes the thinking of turns before the last user message. */
const forgetful = new Renderer(
  readTokenizer(file),
  ChatTemplate.fromGguf(file, await readFixtureText("templates/llamacpp/Qwen-Qwen3-0.6B.jinja")),
);
file.close();
const options: PairRowsOptions = { renderer, variables: {}, ctx: 1024 };

const user = { role: "user", content: "hi there" };
const says = (content: string) => ({ role: "assistant", content });
const chat = { prompt: [user], chosen: [says("yes")], rejected: [says("no, never")] };

async function read(rows: readonly object[], more: Partial<PairRowsOptions> = {}) {
  const path = await Deno.makeTempFile({ suffix: ".jsonl" });
  try {
    await Deno.writeTextFile(path, rows.map((row) => JSON.stringify(row)).join("\n"));
    return await readPairRows(path, { ...options, ...more });
  } finally {
    await Deno.remove(path);
  }
}

const textOf = (tokens: Iterable<number>) => [...tokens].map((id) => renderer.tokenizer.textOf(id)).join("");
const trainedText = ({ tokens, loss_mask }: { tokens: Uint32Array; loss_mask: Uint8Array }) =>
  textOf(tokens.filter((_, t) => loss_mask[t] === 1));

Deno.test("the completions are trained and the prompt is shared", async () => {
  const { pairs: [pair], rows, truncated, left_out } = await read([chat]);
  assert.deepEqual([rows, truncated, left_out, pair!.line], [1, [], [], 1]);
  const [chosen, rejected] = [pair!.chosen[0]!, pair!.rejected[0]!];
  assert.ok(trainedText(chosen).startsWith("yes"), trainedText(chosen));
  assert.ok(trainedText(rejected).startsWith("no, never"), trainedText(rejected));
  const { prefix_length } = pair!;
  assert.equal(
    prefix_length,
    chosen.loss_mask.indexOf(1),
    "two answers that begin differently share the prompt",
  );
  assert.ok(textOf(chosen.tokens.subarray(0, prefix_length)).includes("hi there"));
  assert.equal(pairTokens(pair!), chosen.tokens.length + rejected.tokens.length - prefix_length);
  const { samples, rejected: are_rejected, pair_of } = pairSamples([pair!, pair!]);
  assert.deepEqual(are_rejected, [false, true, false, true]);
  assert.deepEqual(pair_of, [0, 0, 1, 1]);
  assert.deepEqual(samples.map(({ trajectory }) => trajectory), [0, 0, 1, 1]);
  assert.deepEqual(samples.map(({ prefix_group }) => prefix_group), [0, 0, 1, 1]);
  assert.ok(samples.every((sample) => sample.prefix_length === prefix_length));
});

Deno.test("a prompt's own turns of the assistant and a tool's results are not trained", async () => {
  const call = { type: "function", function: { name: "f", arguments: {} } };
  const { pairs: [pair] } = await read([{
    prompt: [user, says("earlier"), user],
    chosen: [
      { role: "assistant", content: "", tool_calls: [call] },
      { role: "tool", content: "found" },
      says("done"),
    ],
    rejected: [says("gave up")],
  }]);
  const trained = pair!.chosen.map(trainedText).join("");
  assert.ok(trained.includes("done") && trained.includes('"f"'), trained);
  assert.ok(!trained.includes("earlier") && !trained.includes("found"), trained);
});

Deno.test("texts are accepted too, and completions with a common start share no trained token", async () => {
  const { pairs: [pair] } = await read([{ prompt: "a b", chosen: " c d", rejected: " c e" }]);
  assert.equal(pair!.prefix_length, pair!.chosen[0]!.loss_mask.indexOf(1));
  assert.equal(trainedText(pair!.chosen[0]!).slice(0, 4), " c d");
});

Deno.test("sequences longer than ctx are cut, and a pair with nothing left of a completion is left out", async () => {
  const long = { ...chat, prompt: [{ role: "user", content: "hi there ".repeat(40) }] };
  const { pairs: [whole] } = await read([chat]);
  const ctx = whole!.rejected[0]!.tokens.length - 1;
  const data = await read([chat, long], { ctx });
  assert.deepEqual([data.truncated, data.left_out, data.rows], [[1, 2], [2], 2]);
  assert.equal(data.pairs[0]!.rejected[0]!.tokens.length, ctx);
  assert.deepEqual((await read([chat, chat, chat], { max_rows: 2 })).pairs.map(({ line }) => line), [1, 2]);
  await assert.rejects(read([long], { ctx }), /no pair in it has a token to train in both completions$/);
});

Deno.test("a pair whose sequences need more than a micro-batch is refused with its line and the key to raise", async () => {
  // Each turn that a user answers is a sequence of its own.
  const thinks = (i: number) => ({ ...says(`answer ${i}`), reasoning_content: "so ".repeat(20 + i) });
  const talk = (turns: number) =>
    Array.from({ length: turns }, (_, i) => i === 0 ? [thinks(i)] : [user, thinks(i)]);
  const long = { prompt: [user], chosen: talk(4).flat(), rejected: talk(2).flat() };
  const { pairs: [, pair] } = await read([chat, long], { renderer: forgetful });
  const { chosen, rejected, prefix_length } = pair!;
  assert.deepEqual([chosen.length, rejected.length], [4, 2]);
  // The last prompt token predicts the first trained one, so each of the two first sequences has a row of its own for it.
  const shared = prefix_length - 1;
  const rows = [shared];
  for (const completion of [chosen, rejected]) {
    completion.forEach(({ tokens }, i) => rows.push(tokens.length - 1 - (i === 0 ? shared : 0)));
  }
  // A micro-batch of t tokens has ceil(t / a) a + 2 a rows, in which each part starts at a multiple of a.
  const needed = Math.max(...[1, 4, 8, 16, 32].map((a) => {
    const used = rows.reduce((sum, n) => sum + Math.ceil(n / a) * a, 0);
    return used - 2 * a - (a - 1);
  }));
  assert.equal(
    (await read([chat, long], { renderer: forgetful, micro_batch_tokens: needed })).pairs.length,
    2,
  );
  const error = await read([chat, long, long], { renderer: forgetful, micro_batch_tokens: needed - 1 }).then(
    () => null,
    (error) => error,
  );
  assert.ok(error instanceof ServiceError && error.code === "data_invalid");
  assert.deepEqual((error.details.problems as { line: number }[]).map(({ line }) => line), [2, 3]);
  assert.match(
    error.message,
    new RegExp(
      `^Cannot train on .*\\.jsonl:2: the 6 sequences of its completions need ${needed} tokens in one micro-batch, ` +
        `which has ${needed - 1}\\. Raise training\\.micro_batch_tokens to ${needed}, or leave the row out$`,
      "m",
    ),
  );
});

Deno.test("invalid rows are listed with their lines, up to a limit", async () => {
  const error = await read([chat, {}, { ...chat, chosen: [user] }]).then(() => null, (error) => error);
  assert.ok(error instanceof ServiceError && error.code === "data_invalid");
  const problems = error.details.problems as { line: number }[];
  assert.deepEqual(problems.map(({ line }) => line), [2, 3]);
});
