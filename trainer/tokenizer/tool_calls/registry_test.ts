import assert from "node:assert/strict";
import fc from "fast-check";
import { type ChatMessage, TOOL_CALL_FORMATS, type ToolCallFormatName } from "../../../core/chat.ts";
import { readFixtureJson } from "../../../tests/fixture.ts";
import { CALL_CASES, type CallCases } from "../tool_calls_testing.ts";
import { parseToolCalls } from "../tool_call_parser.ts";
import { callSyntax, formatOf, FORMATS } from "./registry.ts";

const all = Object.entries(CALL_CASES) as [ToolCallFormatName, CallCases][];
const SUBMIT = { name: "submit", arguments: {} };

Deno.test("every format has test cases, and without one calls are read in Hermes' form", () => {
  assert.deepEqual([...all.map(([name]) => name), "none"], [...TOOL_CALL_FORMATS]);
  assert.deepEqual(Object.keys(FORMATS).sort(), all.map(([name]) => name).sort());
  assert.equal(callSyntax("none"), FORMATS.hermes.syntax);
});

Deno.test("mistral: the calls that its template renders are read back", async () => {
  const { cases, renders } = await readFixtureJson("templates/goldens.json");
  const seen: string[] = [];
  for (const { template, case: name, add_generation_prompt, output } of renders) {
    if (!template.includes("Mistral") || add_generation_prompt) continue;
    const called = cases[name].messages.filter(({ tool_calls }: ChatMessage) => tool_calls)
      .map(({ tool_calls }: ChatMessage) => tool_calls!.map((call) => call.function));
    const turns = (output ?? "").matchAll(/\[TOOL_CALLS\].*?(?=<\/s>)/g);
    const read = Array.from(turns, ([text]: string[]) => {
      const { content, calls, malformed } = parseToolCalls(text!, {
        format: formatOf(text!),
        has_tools: true,
      });
      assert.deepEqual([content, malformed], ["", []]);
      return calls.map(({ name, arguments: args }) => ({ name, arguments: args }));
    });
    if (read.length === 0) continue;
    seen.push(name);
    assert.deepEqual(read, called, name);
  }
  assert.deepEqual(seen.sort(), [
    "tool_multi_step",
    "tool_parallel",
    "tool_roundtrip",
    "tool_roundtrip_null_content",
  ]);
});

Deno.test("mistral: content may come before the calls", () => {
  const turn = parseToolCalls(
    'I look. [TOOL_CALLS] [{"name": "a", "arguments": {}}, {"name": "b", "arguments": {"x": 1}, "id": 3}]\n',
    { format: "mistral", has_tools: false },
  );
  assert.deepEqual(turn, {
    reasoning: null,
    content: "I look.",
    calls: [{ id: "call_0", name: "a", arguments: {} }, { id: "call_1", name: "b", arguments: { x: 1 } }],
    malformed: [],
  });
});

for (const [format, { written, malformed, content, pieces }] of all) {
  const parse = (text: string) => parseToolCalls(text, { format, has_tools: true });
  const call = { id: "call_0", ...SUBMIT };

  Deno.test(`${format}: a call is recognised and has the name and arguments that were written`, () => {
    const given = fc.dictionary(
      fc.string().filter((key) => key !== "__proto__"),
      fc.jsonValue({ maxDepth: 3 }),
    );
    fc.assert(fc.property(fc.string({ minLength: 1 }), given, (name, args) => {
      // JSON has no -0.
      const text = written({ name, arguments: args }), as_json = JSON.parse(JSON.stringify(args));
      assert.equal(formatOf(text), format);
      assert.deepEqual(parse(`\n${text} `), {
        reasoning: null,
        content: "",
        calls: [{ id: "call_0", name, arguments: as_json }],
        malformed: [],
      });
    }));
  });

  Deno.test(`${format}: thinking before a call is split off, and has no calls`, () => {
    const text = written(SUBMIT), thought = { reasoning: text, content: "", calls: [call], malformed: [] };
    assert.deepEqual(parse(`<think>\n${text}\n</think>\n\n${text}`), thought);
    assert.deepEqual(parse(`So.\n</think>\n${text}`), { ...thought, reasoning: "So." });
    assert.deepEqual(parse(`<think>${text}`), { ...thought, calls: [] });
    const quoted = { name: "say", arguments: { text: "a</think>b" } };
    assert.deepEqual(parse(written(quoted)), {
      ...thought,
      reasoning: null,
      calls: [{ id: "call_0", ...quoted }],
    });
  });

  Deno.test(`${format}: a malformed call has a reason that a model can understand`, () => {
    for (const [text, reason] of malformed) {
      const turn = parse(text), shown = text.slice(0, 80);
      assert.deepEqual([turn.content, turn.calls, turn.malformed.length], ["", [], 1], shown);
      assert.equal(turn.malformed[0]!.index, 0);
      assert.match(turn.malformed[0]!.reason, reason, shown);
    }
  });

  Deno.test(`${format}: other text is content`, () => {
    for (const text of ["", "84", ...content]) {
      assert.deepEqual(parse(text), { reasoning: null, content: text, calls: [], malformed: [] });
    }
  });

  Deno.test(`${format}: no text makes the parser throw`, () => {
    fc.assert(fc.property(fc.array(fc.constantFrom(...pieces)), (parts) => {
      const turn = parse(parts.join(""));
      const { calls, malformed } = turn, indexes = malformed.map(({ index }) => index);
      assert.ok(indexes.every((index, i) => index >= i && index < calls.length + malformed.length));
    }));
  });
}

Deno.test("llama3_json: a tag may come before the call, other keys are left out", () => {
  const text = '<|python_tag|> {"type": "function", "name": "submit", "parameters": {}}';
  const { calls } = parseToolCalls(text, { format: "llama3_json", has_tools: true });
  assert.deepEqual(calls, [{ id: "call_0", ...SUBMIT }]);
});

Deno.test("llama3_json: without tools an object is an answer", () => {
  const text = '{"name": "Ada", "parameters": {}}',
    how = { format: "llama3_json", has_tools: false } as const;
  const answer = { reasoning: null, content: text, calls: [], malformed: [] };
  assert.deepEqual(parseToolCalls(text, how), answer);
  assert.deepEqual(parseToolCalls(`${text}</think>x`, how), { ...answer, reasoning: text, content: "x" });
});
