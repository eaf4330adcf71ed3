import assert from "node:assert/strict";
import fc from "fast-check";
import type { ToolCallFormatName } from "../../core/chat.ts";
import { CALL_CASES, type CallCases } from "../../trainer/tokenizer/tool_calls_testing.ts";
import { TurnText, type TurnTextOptions } from "./turn_text.ts";

const OPTIONS: TurnTextOptions = {
  format: "hermes",
  stop: [],
  has_calls: true,
  has_thinking: true,
  is_thinking: false,
  one_call: false,
  callId: (index) => `call_${index}`,
};

/** All pieces of a text that arrives in these parts. */
function split(parts: readonly string[], options: Partial<TurnTextOptions> = {}) {
  const turn = new TurnText({ ...OPTIONS, ...options });
  const pieces = [...parts.map((part) => turn.push(part)), turn.end()];
  return {
    reasoning: pieces.map(({ reasoning }) => reasoning).join(""),
    content: pieces.map(({ content }) => content).join(""),
    calls: pieces.flatMap(({ calls }) => calls.map(({ name, arguments: args }) => `${name} ${args}`)),
    is_over: turn.is_over,
    /** What each part made certain. */
    told: pieces.map(({ content }) => content),
  };
}

const CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>';

Deno.test("thinking, content and calls are told apart", () => {
  const { reasoning, content, calls } = split([`<think>\nWhy?\n</think>\n\nBecause. ${CALL}\nDone.\n`]);
  assert.deepEqual([reasoning, content, calls], ["Why?", "Because. \nDone.", ['add {"a":1}']]);
});

Deno.test("a prompt that opens the thinking makes the turn begin in it", () => {
  const { reasoning, content } = split(["Hm.</think>Yes"], { is_thinking: true });
  assert.deepEqual([reasoning, content], ["Hm.", "Yes"]);
  assert.equal(split(["Hm.</think>Yes"]).content, "Hm.</think>Yes");
  assert.equal(split(["<think>a</think>b"], { has_thinking: false }).content, "<think>a</think>b");
});

Deno.test("what cannot be parsed as a call is content, and does not change other calls", () => {
  const broken = "<tool_call>{no</tool_call>";
  assert.deepEqual(split([`${CALL}${broken}`]).calls, ['add {"a":1}']);
  assert.equal(split([`${CALL}${broken}`]).content, broken);
  assert.equal(split(["a <tool_call>{"]).content, "a <tool_call>{");
  const nested = split([`<tool_call>{"x ${CALL}`]);
  assert.deepEqual([nested.content, nested.calls], ['<tool_call>{"x', ['add {"a":1}']]);
});

Deno.test("without tools a call is text", () => {
  const { content, calls } = split([CALL], { has_calls: false });
  assert.deepEqual([content, calls], [CALL, []]);
});

Deno.test("a stop text ends the turn and is left out, also when it arrives in parts", () => {
  const { content, is_over, told } = split(["one tw", "o three", " four"], { stop: ["two", " th"] });
  assert.deepEqual([content, is_over, told], ["one", true, ["one", "", "", ""]]);
  assert.equal(split(["one tw"], { stop: ["two"] }).content, "one tw");
});

Deno.test("a turn for one call ends with it", () => {
  const { calls, content, is_over } = split([CALL + CALL + "more"], { one_call: true });
  assert.deepEqual([calls.length, content, is_over], [1, "", true]);
});

Deno.test("text is told as soon as no marker can begin in it", () => {
  assert.deepEqual(split(["Hi ", "there <", "b> <tool", "_box"]).told, [
    "Hi",
    " there",
    " <b>",
    " <tool_box",
    "",
  ]);
});

/** Any parts in which a text may arrive. */
function cutAt(text: string, cuts: readonly number[]): string[] {
  const places = [0, ...cuts.map((cut) => cut % (text.length + 1)), text.length].sort((a, b) => a - b);
  return places.slice(1).map((end, i) => text.slice(places[i]!, end));
}

for (
  const [format, { written, malformed, content, pieces }] of Object.entries(CALL_CASES) as [
    ToolCallFormatName,
    CallCases,
  ][]
) {
  const ADD = written({ name: "add", arguments: { a: 1 } });

  Deno.test(`${format}: a call is told apart from thinking, and what cannot be parsed is content`, () => {
    const thought = split([`<think>Why?</think>\n${ADD}\n`], { format });
    assert.deepEqual([thought.reasoning, thought.content, thought.calls], ["Why?", "", ['add {"a":1}']]);
    const long = split([ADD], { format, is_thinking: true });
    assert.deepEqual([long.reasoning, long.content, long.calls], [ADD, "", []]);
    for (const text of [...malformed.map(([text]) => text), ...content]) {
      const { content, calls } = split([text], { format });
      assert.deepEqual([content, calls], [text.trim(), []], text.slice(0, 80));
    }
    const plain = split([ADD], { format, has_calls: false });
    assert.deepEqual([plain.content, plain.calls], [ADD, []]);
  });

  Deno.test(`${format}: the parts in which a text arrives change nothing`, () => {
    const word = fc.constantFrom(...pieces, ADD, " ", "\n", "ab", "<", "stop", "é");
    fc.assert(fc.property(
      fc.array(word, { maxLength: 12 }),
      fc.array(fc.nat(200), { maxLength: 8 }),
      fc.record({ has_calls: fc.boolean(), is_thinking: fc.boolean(), one_call: fc.boolean() }),
      (words, cuts, options) => {
        const text = words.join("");
        const { told: _, ...cut } = split(cutAt(text, cuts), { format, stop: ["stop"], ...options });
        const { told: __, ...whole } = split([text], { format, stop: ["stop"], ...options });
        assert.deepEqual(cut, whole);
      },
    ));
  });
}

Deno.test("llama3_json: only a turn that begins like a call is held back, to its end", () => {
  const parts = ["\n{", '"name": "add", "parameters": ', '{"a": 1}}'];
  const { told, calls } = split(parts, { format: "llama3_json" });
  assert.deepEqual([told, calls], [["", "", "", ""], ['add {"a":1}']]);
  assert.deepEqual(split(["<|pyth", "ia {x} ", "y"], { format: "llama3_json" }).told, [
    "",
    "<|pythia {x}",
    " y",
    "",
  ]);
  assert.deepEqual(split(['{"answer": ', "84}"], { format: "llama3_json" }).told, ["", "", '{"answer": 84}']);
});

Deno.test("llama3_json: a stop text ends the turn before its call is read", () => {
  const options = { format: "llama3_json", stop: ["}}"], one_call: true } as const;
  const cut = new TurnText({ ...OPTIONS, ...options });
  const text = '{"name": "add", "parameters": {"a": 1}}';
  assert.deepEqual(cut.push(text), { reasoning: "", content: text.slice(0, -2), calls: [] });
  const after = new TurnText({ ...OPTIONS, ...options, stop: ["stop"] });
  assert.deepEqual(after.push(`${text} stop`).calls.length, 1);
  assert.deepEqual([cut.ended_by, after.ended_by], ["text", "text"], "no call ended them");
});
