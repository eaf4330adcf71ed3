import assert from "node:assert/strict";
import type { ChatMessage } from "../../core/chat.ts";
import { fixturePath, readFixtureJson, readFixtureLines, readFixtureText } from "../../tests/fixture.ts";
import { llama3Renderer } from "../../tests/llama3_chat.ts";
import { fixtureTokenizer } from "../../tests/vocabulary.ts";
import { openGguf } from "../formats/gguf.ts";
import { ChatTemplate } from "./chat_template.ts";
import { renderCompletion, renderConversation, renderPlainText } from "./conversation.ts";
import { Renderer } from "./renderer.ts";
import { probeTemplate } from "./template_probe.ts";
import { readTokenizer } from "./read_tokenizer.ts";

const TRACES = "models/tiny-agent/sft-traces.jsonl";
const MISTRAL = "llamacpp/mistralai-Mistral-Nemo-Instruct-2407.jinja";
const IM_END = 1019, NEWLINE = 198;

async function tinyRenderer(): Promise<Renderer> {
  using file = await openGguf(await fixturePath("models/tiny-agent-f16.gguf"));
  return new Renderer(readTokenizer(file), ChatTemplate.fromGguf(file));
}

const tiny = await tinyRenderer();

async function rendererOf(template: string): Promise<Renderer> {
  const options = { bos_token: "<|endoftext|>", eos_token: "<|im_end|>" };
  return new Renderer(
    tiny.tokenizer,
    new ChatTemplate(await readFixtureText(`templates/${template}`), options),
  );
}

/** Splits a text into prompt, turns with their end token, and the text between them. */
function splitText(text: string): { turns: string[]; between: string[] } {
  const parts = text.split(/(?<=<\|im_start\|>assistant\n)(.*?<\|im_end\|>)/s);
  return { turns: parts.filter((_, i) => i % 2 === 1), between: parts.filter((_, i) => i % 2 === 0) };
}

Deno.test("prompts have the golden ids", async () => {
  const { prompts, tools } = await readFixtureJson("models/tiny-agent/golden.json");
  for (const { messages, add_generation_prompt, text, ids } of prompts) {
    if (messages === null || !add_generation_prompt) continue;
    assert.deepEqual(tiny.renderPrompt(messages, { tools, variables: {} }), { text, ids });
  }
});

Deno.test("prompt, turns and suffixes make the ids of the complete conversation, for every trace", async () => {
  let turns = 0;
  for (const { messages, tools } of await readFixtureLines(TRACES)) {
    const options = { tools, variables: {} };
    const whole = tiny.renderText(messages, false, options), text = splitText(whole);
    const first = messages.findIndex(({ role }: ChatMessage) => role === "assistant");
    const ids = tiny.renderPrompt(messages.slice(0, first), options).ids;
    messages.slice(first).forEach((message: ChatMessage) => {
      if (message.role === "assistant") {
        ids.push(...tiny.encode(text.turns.shift()!));
        turns++;
        return;
      }
      const suffix = tiny.renderSuffix({ messages: [message], ended: true }, options);
      assert.equal(suffix.ids[0], NEWLINE, "the line end after <|im_end|> is kept");
      assert.ok(suffix.origins.every((origin) => origin === "tool"));
      ids.push(...suffix.ids);
    });
    assert.deepEqual([...ids, NEWLINE], tiny.encode(whole));
  }
  assert.ok(turns > 400);
});

Deno.test("a suffix holds the results of all calls of a turn, and an end token only where it lacks one", async () => {
  const { tools } = await readFixtureJson("models/tiny-agent/golden.json"),
    options = { tools, variables: {} };
  const messages: ChatMessage[] = [{ role: "tool", content: "ok" }, {
    role: "tool",
    content: "anchor anchorx",
  }];
  const expected =
    "\n<|im_start|>user\n<tool_response>\nok\n</tool_response>\n<tool_response>\nanchor anchorx\n" +
    "</tool_response><|im_end|>\n<|im_start|>assistant\n";
  const ended = tiny.renderSuffix({ messages, ended: true }, options);
  assert.equal(ended.text, expected);
  assert.deepEqual(ended.ids, tiny.encode(expected));
  const open = tiny.renderSuffix({ messages, ended: false }, options);
  assert.deepEqual(open.ids, [IM_END, ...ended.ids]);
  assert.deepEqual(open.origins.slice(0, 2), ["forced", "tool"]);
  const user = tiny.renderSuffix({ messages: [{ role: "user", content: "And?" }], ended: true }, options);
  assert.equal(user.text, "\n<|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\n");
  assert.deepEqual([...new Set(user.origins)], ["prompt"]);
});

Deno.test("suffixes of thinking templates keep the variables of the run", async () => {
  const renderer = await rendererOf("llamacpp/Qwen-Qwen3-0.6B.jinja");
  const { text } = renderer.renderSuffix(
    { messages: [{ role: "tool", content: "ok" }], ended: true },
    { tools: [], variables: { enable_thinking: false } },
  );
  assert.ok(text.endsWith("<|im_start|>assistant\n<think>\n\n</think>\n\n"), text);
});

Deno.test("the golden batch's ids and mask come from its traces", async () => {
  const traces = await readFixtureLines(TRACES);
  const { batch, masked_tokens } = await readFixtureJson("models/tiny-agent/golden-lora.json");
  let trained = 0;
  for (const { trace, ids, mask } of batch) {
    const { messages, tools } = traces[trace], options = { tools, variables: {} };
    const [sequence, ...more] = renderConversation(tiny, { messages, train_on: "assistant" }, options);
    assert.equal(more.length, 0);
    assert.deepEqual(sequence!.ids, ids);
    assert.deepEqual([...sequence!.loss_mask], mask);
    assert.deepEqual(sequence!.origins.map((origin) => origin === "model" ? 1 : 0), mask);
    trained += sequence!.loss_mask.reduce((sum, one) => sum + one, 0);

    const last = sequence!.assistant_spans.at(-1)!;
    const [only] = renderConversation(tiny, { messages, train_on: "last" }, options);
    assert.deepEqual(only!.loss_mask.indexOf(1), last.start);
    assert.equal(only!.loss_mask.reduce((sum, one) => sum + one, 0), last.end - last.start);
    const [all] = renderConversation(tiny, { messages, train_on: "all" }, options);
    assert.deepEqual([all!.loss_mask[0], all!.loss_mask.reduce((sum, one) => sum + one, 0)], [
      0,
      ids.length - 1,
    ]);
    const [later] = renderConversation(
      tiny,
      { messages, train_on: "assistant", first_trained_message: last.message },
      options,
    );
    assert.deepEqual(later!.loss_mask, only!.loss_mask);
  }
  assert.equal(trained, masked_tokens);
});

Deno.test("conversations of stable templates have the golden text", async () => {
  const goldens = await readFixtureJson("templates/goldens.json");
  let compared = 0;
  for (const template of ["llamacpp/Qwen-Qwen2.5-7B-Instruct.jinja", "trl/qwen3_training.jinja"]) {
    const renderer = await rendererOf(template);
    for (const golden of goldens.renders) {
      const { messages, tools = [] } = goldens.cases[golden.case];
      if (golden.template !== template || golden.add_generation_prompt) continue;
      if (messages.at(-1).role !== "assistant") continue;
      const options = { tools, variables: golden.extra };
      const request = { messages, train_on: "assistant" } as const;
      if (golden.case === "reasoning" && golden.extra.enable_thinking === false) {
        // The prompt closes the thinking that the message contains.
        assert.throws(() => renderConversation(renderer, request, options), { code: "template_failed" });
        continue;
      }
      const sequences = renderConversation(renderer, request, options);
      assert.equal(sequences.length, 1, golden.case);
      assert.equal(renderer.tokenizer.decode(sequences[0]!.ids, { special: true }), golden.output);
      compared++;
    }
  }
  assert.ok(compared >= 4);
});

Deno.test("a template that strips earlier thinking gives a sequence per turn, each trained once", async () => {
  const renderer = await rendererOf("llamacpp/Qwen-Qwen3-0.6B.jinja");
  const messages: ChatMessage[] = [
    { role: "user", content: "What is 12 * 7?" },
    { role: "assistant", content: "84", reasoning_content: "12*7 = 84." },
    { role: "user", content: "Sure?" },
    { role: "assistant", content: "Yes.", reasoning_content: "It is." },
  ];
  const options = { tools: [], variables: {} };
  const sequences = renderConversation(renderer, { messages, train_on: "assistant" }, options);
  const trained = sequences.map(({ ids, loss_mask }) => {
    return renderer.tokenizer.decode(ids.filter((_, i) => loss_mask[i] === 1), { special: true });
  });
  assert.deepEqual(trained, [
    "<think>\n12*7 = 84.\n</think>\n\n84<|im_end|>",
    "<think>\nIt is.\n</think>\n\nYes.<|im_end|>",
  ]);
  const prompt = renderer.tokenizer.decode(sequences[1]!.ids, { special: true });
  assert.ok(
    !prompt.includes("12*7 = 84."),
    "the second prompt is what the template renders, without the thinking",
  );
  assert.equal(renderConversation(renderer, { messages, train_on: "last" }, options).length, 1);
});

Deno.test("conversations that cannot be trained are refused", () => {
  const options = { tools: [], variables: {} };
  const messages: ChatMessage[] = [{ role: "user", content: "Hi" }];
  assert.throws(() => renderConversation(tiny, { messages, train_on: "all" }, options), {
    code: "data_invalid",
  });
  const odd = new Renderer(
    tiny.tokenizer,
    new ChatTemplate(
      "{% for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}model:{% endif %}",
      { bos_token: "", eos_token: "" },
    ),
  );
  const answered: ChatMessage[] = [...messages, { role: "assistant", content: "Yes" }];
  assert.throws(() => renderConversation(odd, { messages: answered, train_on: "all" }, options), {
    code: "template_failed",
    message: /train on message 1.*generation prompt/,
  });
});

Deno.test("plain text and completions are trained up to the end token", () => {
  const whole = renderPlainText(tiny.tokenizer, "Hello, world!");
  assert.deepEqual(whole.ids, [39, 724, 315, 11, 449, 599, 0, IM_END]);
  assert.deepEqual([...whole.loss_mask], [0, 1, 1, 1, 1, 1, 1, 1]);
  const completion = renderCompletion(tiny.tokenizer, "Hello,", " world!");
  assert.deepEqual(completion.ids, whole.ids);
  assert.deepEqual([...completion.loss_mask], [0, 0, 0, 0, 1, 1, 1, 1]);
  assert.deepEqual(completion.assistant_spans, [{ start: 4, end: 8, message: 0 }]);
});

Deno.test("a kind that prepends a space does so only where the complete text has it", async () => {
  const llama = await fixtureTokenizer("tokenizers/ggml-vocab-llama-spm.gguf");
  // Llama's own ids of this text, including begin and end token.
  const story = [1, 9038, 2501, 263, 931, 2];
  assert.deepEqual(renderPlainText(llama, "Once upon a time").ids, story);
  assert.deepEqual(renderCompletion(llama, "Once upon", " a time").ids, story);
  const template = "{% for m in messages %}{% if m.role == 'user' %}" +
    "{{ bos_token + '[INST] ' + m.content + ' [/INST]' }}" +
    "{% else %}{{ ' ' + m.content + ' ' + eos_token }}{% endif %}{% endfor %}";
  const renderer = new Renderer(
    llama,
    new ChatTemplate(template, { bos_token: "<s>", eos_token: "</s>" }),
  );
  const text = "<s>[INST] Hi [/INST] Yes </s><s>[INST] Bye [/INST] No </s>";
  const whole = renderer.encode(text), options = { tools: [], variables: {} };
  const messages: ChatMessage[] = [
    { role: "user", content: "Hi" },
    { role: "assistant", content: "Yes" },
    { role: "user", content: "Bye" },
    { role: "assistant", content: "No" },
  ];
  const [sequence, ...others] = renderConversation(renderer, { messages, train_on: "assistant" }, options);
  assert.deepEqual(others, []);
  assert.deepEqual(sequence!.ids, whole);
  assert.deepEqual(
    sequence!.assistant_spans.map(({ start, end }) =>
      llama.decode(whole.slice(start, end), {
        special: true,
      })
    ),
    ["Yes </s>", "No </s>"],
  );
  const [yes, no] = sequence!.assistant_spans;
  const { ids } = renderer.renderSuffix({ messages: messages.slice(2, 3), ended: true }, options);
  assert.deepEqual(ids, whole.slice(yes!.end, no!.start));
});

Deno.test("a suffix after a turn without an end token continues the text", async () => {
  const llama = await fixtureTokenizer("tokenizers/ggml-vocab-llama-spm.gguf");
  const template = "{% for m in messages %}{{ m.role + ': ' + m.content + '.\n' }}{% endfor %}";
  const renderer = new Renderer(llama, new ChatTemplate(template, { bos_token: "<s>", eos_token: "</s>" }));
  const options = { tools: [], variables: {} };
  const { text, ids } = renderer.renderSuffix({
    messages: [{ role: "user", content: "Go" }],
    ended: false,
  }, options);
  assert.equal(text, ".\nuser: Go.\n");
  assert.equal(ids.map((id) => llama.textOf(id)).join(""), text);
});

Deno.test("the probe finds each template's properties", async () => {
  const facts = async (template: string) => {
    const { problems, ...probe } = probeTemplate(await rendererOf(template), {});
    assert.deepEqual(problems, []);
    return probe;
  };
  const hermes = {
    bos_count: 0,
    tool_call_format: "hermes",
    tool_call_round_trip: true,
    turn_end: "<|im_end|>",
  };
  const stable = { prefix_stable: true, tool_loop_stable: true, keeps_thinking: true };
  const changing = { prefix_stable: false, tool_loop_stable: false, keeps_thinking: false };
  assert.deepEqual(await facts("llamacpp/Qwen-Qwen2.5-7B-Instruct.jinja"), { ...stable, ...hermes });
  assert.deepEqual(await facts("trl/qwen3_training.jinja"), { ...stable, ...hermes });
  assert.deepEqual(await facts("llamacpp/Qwen-Qwen3-0.6B.jinja"), { ...changing, ...hermes });
  assert.deepEqual(await facts("trl/qwen3.jinja"), { ...changing, ...hermes });
  const llama = await facts("llamacpp/meta-llama-Llama-3.1-8B-Instruct.jinja");
  // Its end token <|eot_id|> is not one of this vocabulary.
  assert.deepEqual([llama.tool_call_format, llama.bos_count, llama.turn_end], ["llama3_json", 1, null]);
  const ended = probeTemplate(await llama3Renderer(), {});
  assert.deepEqual(ended, {
    ...stable,
    ...hermes,
    tool_call_format: "llama3_json",
    bos_count: 1,
    problems: [],
  });
  const { tool_call_format, tool_call_round_trip, tool_loop_stable } = await facts(MISTRAL);
  // It renders the system's message only before a question that is the last message.
  assert.deepEqual([tool_call_format, tool_call_round_trip, tool_loop_stable], ["mistral", true, false]);
});

Deno.test("ids of calls are such as Mistral's template takes, and a result keeps naming its call", async () => {
  const renderer = await rendererOf(MISTRAL), { cases } = await readFixtureJson("templates/goldens.json");
  const { messages, tools } = cases.tool_parallel, options = { tools, variables: {} };
  const text = renderer.renderText(messages, true, options);
  const ids = ["call_0_0", "chatcmpl-tool-1"], own = ["abcdef123", "abcdef456"];
  const named = JSON.stringify(messages).replaceAll(own[0]!, ids[0]!).replaceAll(own[1]!, ids[1]!);
  const other = renderer.renderText(JSON.parse(named), true, options);
  const made = Array.from(other.matchAll(/"id": "([a-zA-Z0-9]{9})"/g), ([, id]) => id!);
  assert.equal(new Set(made).size, 2, other);
  assert.equal(other.replaceAll(made[0]!, own[0]!).replaceAll(made[1]!, own[1]!), text);
  const suffix = renderer.renderSuffix({ messages: JSON.parse(named).slice(-2), ended: true }, options);
  assert.ok(other.endsWith(suffix.text) && suffix.text.includes(made[1]!), suffix.text);
});

Deno.test("a template that refuses to render is probed without throwing", () => {
  const template = new ChatTemplate("{{ raise_exception('never') }}", { bos_token: "", eos_token: "" });
  const probe = probeTemplate(new Renderer(tiny.tokenizer, template), {});
  assert.deepEqual(probe.problems, ["Cannot render the chat template: never"]);
  assert.deepEqual([probe.prefix_stable, probe.tool_call_format, probe.turn_end], [false, "none", null]);
});
