import assert from "node:assert/strict";
import fc from "fast-check";
import { TurnText, type TurnTextOptions } from "./turn_text.ts";

const OPTIONS: TurnTextOptions = {
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

Deno.test("the parts in which a text arrives change nothing", () => {
  const word = fc.constantFrom(
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    CALL,
    " ",
    "\n",
    "ab",
    "<",
    "stop",
    "é",
  );
  fc.assert(fc.property(
    fc.array(word, { maxLength: 12 }),
    fc.array(fc.nat(200), { maxLength: 8 }),
    fc.record({ has_calls: fc.boolean(), is_thinking: fc.boolean(), one_call: fc.boolean() }),
    (words, cuts, options) => {
      const text = words.join(""), places = [0, ...cuts.map((cut) => cut % (text.length + 1)), text.length];
      places.sort((a, b) => a - b);
      const parts = places.slice(1).map((end, i) => text.slice(places[i]!, end));
      const { told: _, ...cut } = split(parts, { stop: ["stop"], ...options });
      const { told: __, ...whole } = split([text], { stop: ["stop"], ...options });
      assert.deepEqual(cut, whole);
    },
  ));
});
