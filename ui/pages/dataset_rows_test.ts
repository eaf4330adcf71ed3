import assert from "node:assert/strict";
import { fieldsOf } from "./dataset_rows.ts";

Deno.test("a row's conversations, texts and other values keep their order", () => {
  const call = { type: "function", function: { name: "write", arguments: { path: "a", mode: 7 } } };
  const fields = fieldsOf({
    messages: [
      { role: "user", content: "hi" },
      { role: "assistant", content: null, reasoning_content: "hm", tool_calls: [call] },
    ],
    prompt: "text",
    tools: [{ name: "write" }],
  });
  assert.deepEqual(fields, [
    {
      name: "messages",
      messages: [
        { role: "user", thinking: "", text: "hi", calls: [] },
        {
          ...{ role: "assistant", thinking: "hm", text: "" },
          calls: [{ name: "write", arguments: [["path", "a"], ["mode", "7"]] }],
        },
      ],
    },
    { name: "prompt", text: "text" },
    { name: "tools", json: '[\n  {\n    "name": "write"\n  }\n]' },
  ]);
});

Deno.test("a row that is not what it should be is shown all the same", () => {
  assert.deepEqual(fieldsOf({ messages: [], other: [{ role: 1 }], none: null }), [
    { name: "messages", json: "[]" },
    { name: "other", json: '[\n  {\n    "role": 1\n  }\n]' },
    { name: "none", json: "null" },
  ]);
  const [field] = fieldsOf({ messages: [{ role: "assistant", content: [{ text: "x" }], tool_calls: [3] }] });
  assert.deepEqual(field, {
    name: "messages",
    messages: [{
      ...{ role: "assistant", thinking: "", text: '[\n {\n  "text": "x"\n }\n]' },
      calls: [{ name: "", arguments: "" }],
    }],
  });
});
