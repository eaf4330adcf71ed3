import assert from "node:assert/strict";
import { type Message, normalizeMessages, openAiTool } from "../../core/chat.ts";
import { fixturePath, readFixtureJson, readFixtureText } from "../../tests/fixture.ts";
import { openGguf } from "../formats/gguf.ts";
import { ChatTemplate } from "./chat_template.ts";

const INPUT = { messages: [], tools: [], add_generation_prompt: false, variables: {} };

function render(source: string, variables: Record<string, unknown> = {}): string {
  return new ChatTemplate(source, { bos_token: "<s>", eos_token: "</s>" }).render({ ...INPUT, variables });
}

/** The begin and end tokens that the goldens were rendered with. */
const TOKENS: Record<string, [string, string]> = {
  "llamacpp/meta-llama-Llama-3.1-8B-Instruct.jinja": ["<|begin_of_text|>", "<|eot_id|>"],
  "llamacpp/mistralai-Mistral-Nemo-Instruct-2407.jinja": ["<s>", "</s>"],
};
const TEMPLATES = [
  "llamacpp/Qwen-Qwen2.5-7B-Instruct.jinja",
  "llamacpp/Qwen-Qwen3-0.6B.jinja",
  "trl/qwen3.jinja",
  "trl/qwen3_training.jinja",
  ...Object.keys(TOKENS),
];

Deno.test("every conversation renders as Python's jinja2 renders it, and fails where it fails", async () => {
  const goldens = await readFixtureJson("templates/goldens.json");
  const counts: number[] = [];
  for (const name of TEMPLATES) {
    const [bos_token, eos_token] = TOKENS[name] ?? ["", "<|im_end|>"];
    const template = new ChatTemplate(await readFixtureText(`templates/${name}`), {
      bos_token,
      eos_token,
      now: () => new Date("2025-01-02T03:04:05Z"),
    });
    const cases = goldens.renders.filter((golden: { template: string }) => golden.template === name);
    for (const golden of cases) {
      const { messages, tools = [] } = goldens.cases[golden.case];
      const { add_generation_prompt, extra: variables } = golden;
      const run = () => template.render({ messages, tools, add_generation_prompt, variables });
      const label = `${name} ${golden.case} ${add_generation_prompt} ${JSON.stringify(variables)}`;
      if (golden.error) assert.throws(run, { code: "template_failed" }, label);
      else assert.equal(run(), golden.output, label);
    }
    counts.push(cases.length);
  }
  assert.deepEqual(counts, [22, 44, 44, 44, 22, 22]);
});

Deno.test("the tiny agent's template renders its golden prompts", async () => {
  using file = await openGguf(await fixturePath("models/tiny-agent-f16.gguf"));
  const template = ChatTemplate.fromGguf(file);
  assert.equal(template.source, await readFixtureText("templates/llamacpp/Qwen-Qwen2.5-7B-Instruct.jinja"));
  const { prompts, tools } = await readFixtureJson("models/tiny-agent/golden.json");
  for (const { messages, add_generation_prompt, text } of prompts) {
    if (messages === null) continue;
    assert.equal(template.render({ messages, tools, add_generation_prompt, variables: {} }), text);
  }
});

Deno.test("a file without a template says so, and an override takes its place", async () => {
  using file = await openGguf(await fixturePath("models/tiny-agent-f16.gguf"));
  assert.equal(
    ChatTemplate.fromGguf(file, "{{ bos_token + eos_token }}").render(INPUT),
    "<|endoftext|><|im_end|>",
  );
  file.metadata.delete("tokenizer.chat_template");
  assert.throws(() => ChatTemplate.fromGguf(file), {
    code: "template_failed",
    message: /has no chat template; name a file in \[model\].chat_template/,
  });
});

Deno.test("a template that throws is reported in its own words", () => {
  const fails = (source: string, message: RegExp) => {
    assert.throws(() => render(source), { name: "ServiceError", code: "template_failed", message });
  };
  fails(
    "{{ raise_exception('roles must alternate') }}",
    /Cannot render the chat template: roles must alternate/,
  );
  fails("{% for x in y %}{% endfor %}", /iterable/);
  fails("{{ 1 | nofilter }}", /nofilter/);
  fails("{{ range(0, 3, 0) }}", /step must not be zero/);
  fails("{{ range('x') }}", /whole numbers/);
  assert.throws(() => render("{% if %}"), {
    code: "template_failed",
    message: /Cannot parse the chat template/,
  });
  assert.throws(() => render("{{ x", {}), { code: "template_failed" });
});

Deno.test("variables reach the template, and cannot replace its own inputs", () => {
  assert.equal(
    render("{{ enable_thinking }}|{{ absent is defined }}", { enable_thinking: false }),
    "false|false",
  );
  assert.equal(render("{{ range(3) | join(',') }}|{{ range(5, 0, -2) | join(',') }}"), "0,1,2|5,3,1");
  assert.throws(() => render("", { messages: [] }), {
    code: "template_failed",
    message: /variable messages/,
  });
  assert.throws(() => render("", { range: 1 }), { code: "template_failed", message: /variable range/ });
});

Deno.test("messages are converted for templates", () => {
  const messages = normalizeMessages([
    { role: "user", content: null },
    {
      role: "assistant",
      tool_calls: [{ function: { name: "a", arguments: '{"x": [1]}' } }, {
        function: { name: "b", arguments: "" },
      }],
    },
    { role: "assistant", content: "x", tool_calls: [], reasoning_content: "t" },
  ]);
  const expected: Message[] = [
    { role: "user", content: "" },
    {
      role: "assistant",
      content: "",
      tool_calls: [
        { type: "function", function: { name: "a", arguments: { x: [1] } } },
        { type: "function", function: { name: "b", arguments: {} } },
      ],
    },
    { role: "assistant", content: "x", reasoning_content: "t" },
  ];
  assert.deepEqual(messages, expected);
  for (const wrong of ["{", "[]", "1", "null"]) {
    const call = { function: { name: "a", arguments: wrong } };
    assert.throws(() => normalizeMessages([{ role: "user" }, { role: "assistant", tool_calls: [call] }]), {
      code: "data_invalid",
      message: /message 1: the arguments of its call of a are no JSON object/,
    });
  }
});

Deno.test("a tool of the Model Context Protocol becomes one of the OpenAI form", () => {
  const inputSchema = { type: "object", properties: {} };
  assert.deepEqual(openAiTool({ name: "a", description: "b", inputSchema }), {
    type: "function",
    function: { name: "a", description: "b", parameters: inputSchema },
  });
  assert.deepEqual(openAiTool({ name: "a" }).function.parameters, inputSchema);
  const given = { type: "function", function: { name: "a" } } as const;
  assert.equal(openAiTool(given), given);
});
