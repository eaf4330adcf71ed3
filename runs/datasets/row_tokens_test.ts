import assert from "node:assert/strict";
import type { DataKind } from "../../config/algorithms.ts";
import { withFolder } from "../../tests/folder.ts";
import { checkedFile } from "../../core/regular_file.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { readPairRows } from "../algorithms/preference/pair_rows.ts";
import { readSftRows } from "../algorithms/sft/sft_rows.ts";
import { ManualClock } from "../../core/clock_fake.ts";
import { promptMessages } from "../../agent/rollout/prompts.ts";
import { chatOf, loadModelParts } from "../session/model_parts.ts";
import { previewRows } from "./preview_rows.ts";
import { type RowToken, rowTokens } from "./row_tokens.ts";
import { TOKENIZE_SECONDS, tokenizeDataset } from "./tokenize_dataset.ts";

const path_of_model = await Deno.realPath(await fixturePath("models/tiny-agent-q8_0.gguf"));
const model = await checkedFile(path_of_model);
const parts = await loadModelParts({ path: path_of_model }, {});
const first = { line: 1, offset: 0 };

const user = (content: string) => ({ role: "user", content });
const says = (content: string) => ({ role: "assistant", content });
const chat = { messages: [user("hi"), says("yes"), user("and?"), says("no")] };
const pair = { prompt: [user("hi")], chosen: [says("yes")], rejected: [says("no, never")] };

/** All tokens of a row. */
async function tokensOf(
  rows: readonly object[],
  kind: DataKind,
  more: { line?: number; ctx?: number } = {},
) {
  let tokens: RowToken[] = [];
  await withFolder(async (folder) => {
    const path = `${folder}/x`;
    await Deno.writeTextFile(path, rows.map((row) => JSON.stringify(row)).join("\n"));
    const { line = 1, ctx = null } = more;
    const asked = {
      path,
      kind,
      line,
      from: first,
      model,
      ctx,
      template_variables: {},
      start: 0,
      limit: 10_000,
    };
    tokens = (await rowTokens(asked))!.tokens;
  });
  return tokens;
}

/** Reads the rows as a run does. */
async function trainedBy<T>(rows: readonly object[], read: (path: string) => Promise<T>): Promise<T> {
  let found: T;
  await withFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/x`, rows.map((row) => JSON.stringify(row)).join("\n"));
    found = await read(`${folder}/x`);
  });
  return found!;
}

const flags = (tokens: readonly RowToken[]) => tokens.map(({ trained }) => Number(trained));
const ids = (tokens: readonly RowToken[]) => tokens.map(({ id }) => id);
const textOf = (tokens: readonly RowToken[]) => tokens.map(({ text }) => text).join("");
const { renderer } = parts, variables = {};

Deno.test("a row's tokens and their masks are those of training", async () => {
  for (const row of [chat, { text: "plain text" }, { prompt: "2+2=", completion: "4" }]) {
    const tokens = await tokensOf([row], "sft");
    const data = await trainedBy(
      [row],
      (path) => readSftRows(path, { renderer, variables, train_on: "assistant", ctx: 1024 }),
    );
    const sequences = [...new Set(tokens.map(({ sequence }) => sequence))];
    assert.deepEqual(sequences, data.sequences.map((_, i) => i));
    for (const [i, sequence] of data.sequences.entries()) {
      const own = tokens.filter((token) => token.sequence === i);
      assert.deepEqual(ids(own), [...sequence.tokens]);
      assert.deepEqual(flags(own), [...sequence.loss_mask]);
    }
    assert.ok(tokens.every(({ side }) => side === null));
  }
});

Deno.test("origins and texts tell who wrote a token", async () => {
  const tokens = await tokensOf([{ prompt: "2+2=", completion: "4" }], "sft");
  const written = tokens.filter(({ origin }) => origin === "model");
  assert.ok(written.every(({ trained }) => trained));
  assert.equal(textOf(tokens.filter(({ origin }) => origin === "prompt")), "2+2=");
  assert.ok(textOf(written).startsWith("4"), textOf(written));
});

Deno.test("both sides of a pair are shown as they are trained", async () => {
  const tokens = await tokensOf([chat, pair], "preference", { line: 2 });
  const { pairs: [trained] } = await trainedBy([pair], (path) => {
    return readPairRows(path, { renderer, variables, ctx: 1024 });
  });
  for (const side of ["chosen", "rejected"] as const) {
    const own = tokens.filter((token) => token.side === side);
    assert.deepEqual(ids(own), trained![side].flatMap(({ tokens }) => [...tokens]));
    assert.deepEqual(flags(own), trained![side].flatMap(({ loss_mask }) => [...loss_mask]));
  }
});

Deno.test("tokens after ctx are not trained, nor a pair of which a side has none left", async () => {
  const whole = await tokensOf([chat], "sft"), cut = await tokensOf([chat], "sft", { ctx: 20 });
  assert.deepEqual(ids(cut), ids(whole));
  assert.deepEqual(flags(cut), flags(whole).map((trained, i) => i < 20 ? trained : 0));
  const late = { ...pair, rejected: [user("and then? ".repeat(20)), says("no")] };
  const both = await tokensOf([late], "preference");
  const ctx = both.filter(({ side }) => side === "chosen").length;
  const firstTrained = (side: string) =>
    both.filter((token) => token.side === side).findIndex(({ trained }) => trained);
  assert.ok(firstTrained("chosen") < ctx && firstTrained("rejected") >= ctx);
  const none = await tokensOf([late], "preference", { ctx });
  assert.ok(none.length === both.length && none.every(({ trained }) => !trained));
});

Deno.test("a scenario shows its prompt, none of which is trained", async () => {
  const task = { id: "a", user: "Write it.", system: "Be brief." };
  const tokens = await tokensOf([task], "scenarios");
  const messages = promptMessages({ ...task, rubric: null, env: null, metadata: {}, line: 1 }, "");
  assert.deepEqual(ids(tokens), chatOf(parts).promptTokens(messages, []));
  assert.ok(tokens.every(({ trained, origin }) => !trained && origin === "prompt"));
});

Deno.test("a part of a row's tokens, and rows that there are not", () =>
  withFolder(async (folder) => {
    const path = `${folder}/x`;
    await Deno.writeTextFile(path, `${JSON.stringify(chat)}\n{"text":7}`);
    const ask = (line: number, start: number, limit: number) =>
      rowTokens({
        path,
        kind: "sft",
        line,
        from: first,
        model,
        ctx: null,
        template_variables: {},
        start,
        limit,
      });
    const all = (await ask(1, 0, 1000))!;
    assert.equal(all.has_more, false);
    assert.deepEqual(await ask(1, 5, 10), { tokens: all.tokens.slice(5, 15), has_more: true });
    assert.deepEqual(await ask(1, all.tokens.length, 10), { tokens: [], has_more: false });
    assert.equal(await ask(3, 0, 10), null);
    await assert.rejects(ask(2, 0, 10), {
      code: "data_invalid",
      message: /^Cannot read dataset:2: expected \{messages\}/,
    });
  }));

Deno.test("a file that has taken the model's place is refused", async () => {
  const asked = {
    kind: "sft" as const,
    line: 1,
    from: first,
    ctx: null,
    template_variables: {},
    start: 0,
    limit: 1,
  };
  await withFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/x`, '{"text":"t"}');
    const other = { ...model, ino: model.ino + 1 };
    await assert.rejects(rowTokens({ ...asked, path: `${folder}/x`, model: other }), {
      code: "path_not_found",
      message: `Cannot read ${path_of_model}: another file has taken its place`,
    });
  });
});

const texts = ["a", "b ".repeat(400), "c ".repeat(150)].map((text) => ({ text }));

Deno.test("the summary's numbers follow from the rows' tokens", () =>
  withFolder(async (folder) => {
    const path = `${folder}/x`;
    await Deno.writeTextFile(path, [...texts.map((row) => JSON.stringify(row)), "{"].join("\n"));
    const lengths = await Promise.all(texts.map(async (row) => (await tokensOf([row], "sft")).length));
    const [short, long, middle] = lengths as [number, number, number];
    assert.ok(short <= 64 && 128 < middle && middle <= 256 && 256 < long && long <= 512, String(lengths));
    const found = await tokenizeDataset({ path, kind: "sft", model, ctx: middle, template_variables: {} });
    assert.deepEqual(found, {
      ctx: middle,
      rows: 3,
      complete: true,
      sequences: 3,
      tokens: short + middle + long,
      // All but the first token of a text are trained, up to ctx.
      trained_tokens: short - 1 + 2 * (middle - 1),
      histogram: [
        { min_tokens: 0, max_tokens: 64, rows: 1 },
        { min_tokens: 65, max_tokens: 128, rows: 0 },
        { min_tokens: 129, max_tokens: 256, rows: 1 },
        { min_tokens: 257, max_tokens: 512, rows: 1 },
      ],
      longest: [{ line: 2, tokens: long }, { line: 3, tokens: middle }, { line: 1, tokens: short }],
      truncated: { rows: 1, lines: [2] },
      problems: [{ line: 4, message: found.problems[0]!.message }],
    });
    assert.match(found.problems[0]!.message, /^not JSON/);
    const { ctx } = await tokenizeDataset({ path, kind: "sft", model, ctx: null, template_variables: {} });
    assert.equal(ctx, 1024, "the model's context, which is below 4096");
  }));

Deno.test("when the time is up the answer has the rows so far", () =>
  withFolder(async (folder) => {
    const path = `${folder}/x`;
    await Deno.writeTextFile(path, texts.map((row) => JSON.stringify(row)).join("\n"));
    const clock = new ManualClock();
    let looks = 0;
    const late = {
      ...clock,
      monotonic_ms: () => looks++ < 2 ? 0 : TOKENIZE_SECONDS * 1000,
      wall_ms: () => 0,
    };
    const asked = { path, kind: "sft" as const, model, ctx: null, template_variables: {} };
    const { rows, complete } = await tokenizeDataset(asked, { ...late, sleep: () => Promise.resolve() });
    assert.deepEqual([rows, complete], [1, false]);
  }));

Deno.test("a preview shows rows as they are read", () =>
  withFolder(async (folder) => {
    const path = `${folder}/x`;
    const long = JSON.stringify({ text: "x".repeat(65_536) });
    const bytes = new TextEncoder().encode(
      `{"text":"a","n":1}\n[1]\n{"text":2}\n\xff\n${long}\n{"text":"b"}`,
    );
    bytes[bytes.indexOf(0xc3)] = 0xff;
    await Deno.writeFile(path, bytes);
    const ask = (line: number, limit: number) => previewRows({ path, kind: "sft", line, from: first, limit });
    const { rows, next } = await ask(1, 10);
    assert.equal(next, null);
    assert.deepEqual(rows, [
      { line: 1, row: { text: "a", n: 1 }, text: null, problem: null },
      { line: 2, row: null, text: "[1]", problem: "not a JSON object" },
      { line: 3, row: { text: 2 }, text: null, problem: rows[2]!.problem },
      { line: 4, row: null, text: null, problem: "the bytes are not UTF-8" },
      { line: 5, row: null, text: long.slice(0, 2000), problem: null },
      { line: 6, row: { text: "b" }, text: null, problem: null },
    ]);
    assert.match(rows[2]!.problem!, /^expected \{messages\}/);
    const page = await ask(2, 2);
    assert.deepEqual([page.rows.map(({ line }) => line), page.next], [[2, 3], 4]);
    const unknown = await previewRows({ path, kind: null, line: 3, from: first, limit: 1 });
    assert.equal(unknown.rows[0]!.problem, null, "a row of no kind is only read");
  }));
