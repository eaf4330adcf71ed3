import assert from "node:assert/strict";
import fc from "fast-check";
import { readFixtureLines } from "../../tests/fixture.ts";
import * as parser from "./tool_call_parser.ts";

const parseToolCalls = (text: string) => parser.parseToolCalls(text, { format: "hermes", has_tools: true });

const SUBMIT = '<tool_call>\n{"name": "submit", "arguments": {}}\n</tool_call>';

Deno.test("calls, content and thinking are separated", () => {
  assert.deepEqual(parseToolCalls(SUBMIT), {
    reasoning: null,
    content: "",
    calls: [{ id: "call_0", name: "submit", arguments: {} }],
    malformed: [],
  });
  const turn = parseToolCalls(
    `<think>\nMaybe ${SUBMIT}?\n</think>\n\nFirst.\n<tool_call>{"name":"a","arguments":{"x":"</tool"}}</tool_call>${SUBMIT}\nLast.`,
  );
  assert.deepEqual(turn, {
    reasoning: `Maybe ${SUBMIT}?`,
    content: "First.\n\nLast.",
    calls: [{ id: "call_0", name: "a", arguments: { x: "</tool" } }, {
      id: "call_1",
      name: "submit",
      arguments: {},
    }],
    malformed: [],
  });
  assert.deepEqual(parseToolCalls("84"), { reasoning: null, content: "84", calls: [], malformed: [] });
  assert.deepEqual(parseToolCalls(""), { reasoning: null, content: "", calls: [], malformed: [] });
  // The prompt opened the thinking.
  assert.equal(parseToolCalls(`So.\n</think>\n${SUBMIT}`).reasoning, "So.");
  assert.equal(parseToolCalls(`So.\n</think>\n${SUBMIT}`).calls.length, 1);
  // Thinking that never ends contains no calls.
  assert.deepEqual(parseToolCalls(`<think>${SUBMIT}`), {
    reasoning: SUBMIT,
    content: "",
    calls: [],
    malformed: [],
  });
});

Deno.test("a malformed call has a reason that a model can understand", () => {
  const cases: [string, RegExp][] = [
    ['<tool_call>\n{"name": "submit", "arguments": {}}\n', /no <\/tool_call>/],
    ['<tool_call>\n{"name": "submit", "arguments": {}\n</tool_call>', /not valid JSON/],
    ["<tool_call></tool_call>", /not valid JSON/],
    ["<tool_call>[]</tool_call>", /not a JSON object/],
    ["<tool_call>null</tool_call>", /not a JSON object/],
    ['<tool_call>{"arguments": {}}</tool_call>', /no "name"/],
    ['<tool_call>{"name": 1, "arguments": {}}</tool_call>', /no "name"/],
    ['<tool_call>{"name": "submit"}</tool_call>', /no "arguments"/],
    ['<tool_call>{"name": "submit", "arguments": "{}"}</tool_call>', /no "arguments"/],
    ['<tool_call>{"name": "submit", "arguments": []}</tool_call>', /no "arguments"/],
    ["text </tool_call>", /without <tool_call>/],
    [`<tool_call>${" ".repeat(1 << 20)}{}</tool_call>`, /longer than 1048576/],
  ];
  for (const [text, reason] of cases) {
    const { calls, malformed } = parseToolCalls(text);
    assert.equal(calls.length, 0, text.slice(0, 80));
    assert.equal(malformed.length, 1, text.slice(0, 80));
    assert.match(malformed[0]!.reason, reason);
  }
});

Deno.test("a malformed call does not hide other calls", () => {
  const turn = parseToolCalls(`${SUBMIT}<tool_call>{"name"${SUBMIT}</tool_call>`);
  assert.deepEqual(turn.calls.map(({ id }) => id), ["call_0", "call_1"]);
  assert.deepEqual(turn.malformed.map(({ reason }) => reason), [
    "the call has no </tool_call>",
    "</tool_call> without <tool_call> before it",
  ]);
});

Deno.test("every call in the examples is parsed", async () => {
  for (const { messages } of await readFixtureLines("models/tiny-agent/sft-traces.jsonl")) {
    for (const { role, tool_calls } of messages) {
      if (role !== "assistant") continue;
      const written = tool_calls.map(({ function: call }: { function: unknown }) => {
        return `<tool_call>\n${JSON.stringify(call)}\n</tool_call>`;
      });
      const { calls, malformed, content } = parseToolCalls(written.join("\n"));
      assert.deepEqual(
        calls.map(({ name, arguments: given }) => ({ name, arguments: given })),
        tool_calls.map(({ function: call }: { function: unknown }) => call),
      );
      assert.deepEqual([malformed, content], [[], ""]);
    }
  }
});

Deno.test("no text makes the parser throw", () => {
  const piece = fc.constantFrom(
    "<tool_call>",
    "</tool_call>",
    "<think>",
    "</think>",
    '{"name":"a",',
    '"arguments":{}}',
    "x",
  );
  fc.assert(fc.property(fc.array(piece).map((pieces) => pieces.join("")), (text) => {
    const { calls, malformed } = parseToolCalls(text);
    assert.ok(calls.length + malformed.length <= text.length / 11);
  }));
});

Deno.test("a call with too deeply nested arguments is malformed, without other effects", () => {
  const nested = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`;
  const turn = (depth: number) => `<tool_call>{"name":"f","arguments":{"x":${nested(depth)}}}</tool_call>`;
  // The call and its arguments are two levels.
  assert.equal(parseToolCalls(turn(62)).calls.length, 1);
  for (const depth of [63, 100_000]) {
    const { calls, malformed } = parseToolCalls(turn(depth));
    assert.equal(calls.length, 0);
    assert.match(malformed[0]!.reason, /nested more than 64 levels deep/);
  }
});
