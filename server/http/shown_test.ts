import assert from "node:assert/strict";
import { z } from "zod";
import { TEXTS } from "../../config/text/text_kinds.ts";
import { eventTexts, observedTexts } from "../../runs/results/line_texts.ts";
import { Redactor } from "./redact.ts";
import { shown, shownEvents, shownLine } from "./shown.ts";

const show = (value: unknown, schema: z.ZodType) => shown(value, schema, new Redactor([]));

Deno.test("texts without a kind are prose, in every form of schema", () => {
  const schema = z.strictObject({
    text: z.string(),
    list: z.array(z.string().nullable()),
    record: z.record(z.string(), z.string()),
    form: z.union([z.strictObject({ a: z.string().meta(TEXTS.data) }), z.strictObject({ b: z.string() })]),
    optional: z.strictObject({ text: z.string() }).optional(),
    anything: z.unknown(),
    number: z.number(),
  });
  const of = (path: string) => ({
    text: `Cannot read ${path}: no`,
    list: [path, null],
    record: { "/key/stays": path },
    form: { b: path },
    optional: { text: path },
    anything: [{ deep: path }],
    number: 1,
  });
  assert.deepEqual(show(of("/srv/x"), schema), of("<path>/x"));
  assert.deepEqual(show({ ...of("/srv/x"), form: { a: "/srv/x" } }, schema), {
    ...of("<path>/x"),
    form: { a: "/srv/x" },
  });
  // What a schema does not name is prose too.
  assert.deepEqual(show({ more: "/srv/x" }, z.looseObject({})), { more: "<path>/x" });
});

Deno.test("data stays, also under names that prose has, and through changes of its schema", () => {
  const data = z.string().meta(TEXTS.data);
  const schema = z.strictObject({
    message: data.nullable().optional(),
    reason: z.array(data).meta({ description: "More about it." }),
    detail: data.meta({ description: "Again." }),
  });
  const value = { message: "/srv/x", reason: ["/srv/x"], detail: "/srv/x" };
  assert.deepEqual(show(value, schema), value);
});

Deno.test("of a configuration only keys of paths are shortened", () => {
  const config = {
    model: { path: "/srv/m.gguf", chat_template: "/srv/t.jinja" },
    agent: {
      scenarios: "/srv/s.jsonl",
      system_suffix: "/no_think",
      reward: "r",
      template_variables: { a: "/b/c" },
    },
    sft: { data: "ds_01" },
    run: { name: "/srv/name" },
  };
  assert.deepEqual(show(config, z.unknown().meta(TEXTS.config)), {
    ...config,
    model: { path: "<path>/m.gguf", chat_template: "<path>/t.jinja" },
    agent: { ...config.agent, scenarios: "<path>/s.jsonl" },
  });
  const entry = z.strictObject({ key: z.string(), values: z.array(z.json()) }).meta(TEXTS.config_key);
  assert.deepEqual(show({ key: "model.path", values: ["/srv/a", null] }, entry), {
    key: "model.path",
    values: ["<path>/a", null],
  });
  const suffix = { key: "agent.system_suffix", values: ["/no_think", null] };
  assert.deepEqual(show(suffix, entry), suffix);
});

Deno.test("of events the prose and the paths of files are shortened", async () => {
  const [artifact, evaluation] = [
    { kind: "artifact", path: "/srv/a\n/b\u2028/c", values: { "x/y": 1 } },
    {
      kind: "evaluation",
      scenarios: [{ scenario: "/s/1" }],
      failure: { scenario: "/s/1", message: "no /srv/x" },
    },
  ];
  const text = `id: 1\nevent: artifact\ndata: ${JSON.stringify(artifact)}\n\n` +
    `data: ${JSON.stringify(evaluation)}\n\n:\n\ndata: [DONE]\n\n`;
  const stream = new Blob([text]).stream().pipeThrough(
    shownEvents({ artifact: eventTexts, message: eventTexts }, new Redactor([])),
  );
  const expected = [
    { ...artifact, path: "<path>/a\n<path>/b\u2028<path>/c" },
    { ...evaluation, failure: { scenario: "/s/1", message: "no <path>/x" } },
  ].map((event) => JSON.stringify(event));
  assert.equal(
    await new Response(stream).text(),
    `id: 1\nevent: artifact\ndata: ${expected[0]}\n\ndata: ${expected[1]}\n\n:\n\ndata: [DONE]\n\n`,
  );
});

Deno.test("of what tools printed in a trajectory the server's folders are taken out", () => {
  const line = (folder: string) => ({
    facts: { scenario: "/srv/s/1" },
    texts: {
      tools: [{ name: "/srv/t", description: `in ${folder}`, parameters: {} }],
      messages: [{ role: "tool", content: `${folder}/a.py /etc/passwd`, tool_call_id: "1" }],
      turns: [{
        text: `cat ${folder}/a.py`,
        calls: [{ id: "/srv/id", arguments: { path: `${folder}/a.py` }, result: `${folder}/a.py` }],
      }],
      judge_explanation: `It wrote ${folder}/a.py`,
      verification_output: `File "${folder}/a.py"`,
    },
  });
  const expected = line("<path>");
  expected.facts.scenario = "/srv/s/1";
  const shown = shownLine(JSON.stringify(line("/srv/data")), observedTexts, new Redactor(["/srv/data"]));
  assert.equal(shown, JSON.stringify(expected));
});

Deno.test("of a trajectory only failures are prose", () => {
  const failure = (path: string) => ({ boundary: "tool", message: `Cannot start ${path}` });
  const line = (path: string) => ({
    group: 0,
    facts: { scenario: "/s/1", members: [{ member: 0, failure: failure(path) }] },
    texts: {
      messages: [{ role: "tool", content: "/srv/x", reason: "/srv/x" }],
      turns: [{
        text: "/srv/x",
        calls: [{ arguments: { message: "/srv/x" }, result: "/srv/x", failure: failure(path) }],
      }],
      judge_explanation: "/srv/x",
      verification_output: "/srv/x",
    },
    part: { texts: ["/srv", "/x"] },
  });
  const redactor = new Redactor([]);
  assert.equal(
    shownLine(JSON.stringify(line("/srv/x")), observedTexts, redactor),
    JSON.stringify(line("<path>/x")),
  );
  // A line that a crash cut off.
  assert.equal(shownLine('{"facts":"/srv/x', observedTexts, redactor), '{"facts":"<path>/x');
});
