import assert from "node:assert/strict";
import fc from "fast-check";
import { TOOL_CALL_FORMATS, type ToolCallFormatName } from "../../../core/chat.ts";
import { CALL_CASES, type CallCases } from "../tool_calls_testing.ts";
import { parseToolCalls } from "../tool_call_parser.ts";
import { callSyntax, formatOf, FORMATS } from "./registry.ts";

const all = Object.entries(CALL_CASES) as [ToolCallFormatName, CallCases][];
const SUBMIT = { name: "submit", arguments: {} };

Deno.test("every format that can be parsed has test cases, and the others are read in Hermes' form", () => {
  const parsed = TOOL_CALL_FORMATS.filter((name) => name !== "none" && FORMATS[name].syntax !== null);
  assert.deepEqual(all.map(([name]) => name), parsed);
  const others = TOOL_CALL_FORMATS.filter((name) => !parsed.includes(name));
  assert.deepEqual(others, ["mistral", "none"]);
  for (const name of others) assert.equal(callSyntax(name), FORMATS.hermes.syntax);
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
