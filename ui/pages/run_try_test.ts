import assert from "node:assert/strict";
import { type Question, requestOf } from "./run_try.tsx";

const tool = { type: "function" as const, function: { name: "say" } };
const given = { tools: [tool], system: "Be brief." };

const asked = (more: Partial<Question> = {}) =>
  requestOf({
    ...{ text: "q", system: null, temperature: "0.5", tokens: "9", has_tools: true, has_base: false },
    ...more,
  }, given);

Deno.test("a checkpoint is asked with the tools and the system message of its run, unless others are given", () => {
  assert.deepEqual(asked(), {
    messages: [{ role: "system", content: "Be brief." }, { role: "user", content: "q" }],
    tools: [tool],
    ...{ max_new_tokens: 9, temperature: 0.5, top_p: 1 },
  });
  assert.deepEqual(asked({ system: "Be long." }).messages[0], { role: "system", content: "Be long." });
  const bare = asked({ system: " ", has_tools: false });
  assert.deepEqual([bare.messages, bare.tools], [[{ role: "user", content: "q" }], undefined]);
});

Deno.test("a run without tools is asked without them", () => {
  const question = {
    text: "q",
    system: null,
    temperature: "",
    tokens: "9",
    has_tools: true,
    has_base: false,
  };
  assert.ok(!("tools" in requestOf(question, { tools: [], system: "" })));
});
