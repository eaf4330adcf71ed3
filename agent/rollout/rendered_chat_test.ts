import { deepEqual, equal, match } from "node:assert/strict";
import type { Message } from "../../core/chat.ts";
import { systemClock } from "../../core/clock.ts";
import { ManualClock } from "../../core/clock_fake.ts";
import { readScenarios } from "../../data/scenario.ts";
import { fixturePath, readFixtureJson, readFixtureText } from "../../tests/fixture.ts";
import { llama3Renderer } from "../../tests/llama3_chat.ts";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import { openGguf } from "../../trainer/formats/gguf.ts";
import { ChatTemplate } from "../../trainer/tokenizer/chat_template.ts";
import { Renderer } from "../../trainer/tokenizer/renderer.ts";
import { probeTemplate } from "../../trainer/tokenizer/template_probe.ts";
import { readTokenizer } from "../../trainer/tokenizer/read_tokenizer.ts";
import { localEnvironments } from "../environment/local.ts";
import { FILES_TOOLSET } from "../tools/builtin/files.ts";
import { RenderedChat } from "./rendered_chat.ts";
import { answerCalls } from "./tool_calls.ts";
import { rolloutGroups, testEnvironments, testRollout, testScenarios } from "./rollout_fake.ts";

const IM_END = 1019, ENDOFTEXT = 1017;

async function tinyChat(template?: string): Promise<{ chat: RenderedChat; renderer: Renderer }> {
  using file = await openGguf(await fixturePath("models/tiny-agent-f16.gguf"));
  const source = template && await readFixtureText(`templates/${template}`);
  const renderer = new Renderer(readTokenizer(file), ChatTemplate.fromGguf(file, source));
  return {
    chat: new RenderedChat({ renderer, probe: probeTemplate(renderer, {}), variables: {} }),
    renderer,
  };
}

const { chat, renderer } = await tinyChat();
const { tools } = FILES_TOOLSET;
const encode = (text: string) => renderer.encode(text);

Deno.test("an episode that repeats a golden conversation has its golden tokens", async () => {
  const { prompts } = await readFixtureJson("models/tiny-agent/golden.json");
  const golden = prompts.find((prompt: { add_generation_prompt: boolean }) => !prompt.add_generation_prompt);
  const messages: Message[] = golden.messages, ids: number[] = golden.ids;
  const opening = encode("<|im_start|>assistant\n");
  const turns: number[][] = [],
    prompt_length = ids.findIndex((_, i) => begins(ids, i, opening)) + opening.length;
  for (let i = 0; i < ids.length; i++) {
    if (!begins(ids, i, opening)) continue;
    const start = i + opening.length;
    turns.push(ids.slice(start, ids.indexOf(IM_END, start) + 1));
  }
  const results = messages.filter(({ role }) => role === "tool").map(({ content }) => content);
  const environment = testEnvironments();
  environment.catalog = () => Promise.resolve(FILES_TOOLSET);
  environment.open = () =>
    Promise.resolve({
      call: ({ name }) =>
        Promise.resolve({ result: results.shift() ?? null, reward: null, done: name === "submit" }),
      grade: () => Promise.resolve({ reward: 1, timed_out: false }),
      state: () => Promise.resolve({ value: null }),
      close: () => Promise.resolve(),
    });
  const engine = new ScriptedEngine({ vocabulary: 1024, script: ({ turn }) => turns[turn] });
  const scenarios = testScenarios("s").map((scenario) => ({
    ...scenario,
    system: messages[0]!.content,
    user: messages[1]!.content,
  }));
  const [group] = await Array.fromAsync(
    rolloutGroups(testRollout(engine.client, { chat, environment, scenarios })),
  );
  const [member] = group!.members;
  equal(member!.stop_reason, "submitted");
  deepEqual(group!.prompt_tokens, ids.slice(0, prompt_length));
  deepEqual(member!.fragments[0]!.tokens, ids.slice(0, -1), "all but the line end after the last turn");
  equal(member!.fragments[0]!.sampled.turns.length, turns.flat().length);
  const written = member!.messages.map(({ role, content }) => ({ role, content }));
  deepEqual(written, messages.map(({ role, content }) => ({ role, content })));
});

const begins = (ids: number[], at: number, part: number[]) => part.every((id, i) => ids[at + i] === id);

Deno.test({
  name: "a held-out scenario is solved in a folder of this machine",
  sanitizeOps: true,
  sanitizeResources: true,
  async fn() {
    const all = await readScenarios(await fixturePath("models/tiny-agent/scenarios.heldout.jsonl"));
    const turns = [
      { name: "read_file", arguments: { path: "copy.txt" } },
      { name: "write_file", arguments: { path: "text.md", content: "fotines" } },
      { name: "submit", arguments: {} },
    ].map((call) => [...encode(`<tool_call>\n${JSON.stringify(call)}\n</tool_call>`), IM_END]);
    const lazy = [[...encode("Done."), IM_END]];
    let members = 0;
    const script_of = new Map<number, number[][]>();
    const engine = new ScriptedEngine({
      vocabulary: 1024,
      script: ({ sequence, turn }) => {
        if (!script_of.has(sequence)) script_of.set(sequence, members++ === 0 ? turns : lazy);
        return script_of.get(sequence)![turn];
      },
    });
    const environment = localEnvironments({
      allow_unsandboxed: true,
      tools: {},
      scenario_toolsets: ["files"],
      limits: { exec_timeout_secs: 30 },
      clock: systemClock,
    });
    const scenarios = all.filter(({ id }) => id === "heldout-copy-0001");
    const options = testRollout(engine.client, { chat, environment, scenarios, group_size: 2 });
    const [group] = await Array.fromAsync(rolloutGroups(options));
    // The first environment to be ready samples first, and that may be either.
    const ended = (reason: string) => group!.members.filter(({ stop_reason }) => stop_reason === reason);
    deepEqual(ended("submitted").map(({ total_reward }) => total_reward), [1]);
    deepEqual(ended("no_tool_call").map(({ total_reward }) => total_reward), [0]);
    const shown = ended("submitted")[0]!.messages.filter(({ role }) => role === "tool");
    deepEqual(shown.map(({ content }) => content), ["fotines", "ok"]);
  },
});

Deno.test("a turn's calls are in the order of its text, including malformed ones", async () => {
  const submit = '<tool_call>\n{"name": "submit", "arguments": {}}\n</tool_call>';
  const parsed = chat.parseTurn(
    `<tool_call>\n{</tool_call>${submit}text<tool_call>7</tool_call>${submit}`,
    tools,
  );
  equal(parsed.content, "text");
  const host = {
    call: () => Promise.resolve({ result: "ok", reward: null, done: false }),
    close: () => Promise.resolve(),
  };
  const { signal } = new AbortController();
  const context = { host, tools, clock: new ManualClock(), call_timeout_ms: 1000, signal };
  const { calls } = await answerCalls(2, parsed, context);
  deepEqual(calls.map(({ id, malformed, name }) => [id, malformed, name]), [
    ["call_2_0", true, ""],
    ["call_2_1", false, "submit"],
    ["call_2_2", true, ""],
    ["call_2_3", false, "submit"],
  ]);
});

Deno.test("with Llama 3's template an attempt calls tools, and trains exactly what was sampled", async () => {
  const renderer = await llama3Renderer(), { tokenizer } = renderer;
  const chat = new RenderedChat({ renderer, probe: probeTemplate(renderer, {}), variables: {} });
  const wrong = '{"name": "say", "parameters": {"text": "a"}}; {"name": "say", "parameters": {"text": "b"}}';
  const said = ['{"name":  "say", "parameters": {"text": "hi"}}', wrong, "Done."];
  const turns = said.map((text) => [...renderer.encode(text), IM_END]);
  const engine = new ScriptedEngine({ vocabulary: tokenizer.size, script: ({ turn }) => turns[turn] });
  const settings = { max_new_tokens_per_turn: 400, max_trajectory_tokens: 8000 };
  const [group] = await Array.fromAsync(rolloutGroups(testRollout(engine.client, { chat, settings })));
  const [member] = group!.members;
  deepEqual([member!.stop_reason, member!.total_reward, member!.malformed_calls], ["no_tool_call", 1, 1]);
  deepEqual(member!.turns.map(({ text }) => text), said);
  const [call, malformed] = member!.turns.flatMap(({ calls }) => calls);
  deepEqual([call!.name, call!.arguments, call!.result], ["say", { text: "hi" }, "ok"]);
  deepEqual([malformed!.malformed, malformed!.text], [true, wrong]);
  match(malformed!.result!, /^error: the call is not valid JSON: .* one JSON object and nothing else$/);
  const [asked, answer, refused] = member!.messages.slice(1);
  deepEqual(asked!.tool_calls?.map(({ function: { name } }) => name), ["say"]);
  deepEqual([answer!.role, answer!.content], ["tool", "ok"]);
  deepEqual([refused!.content, refused!.tool_calls], [wrong, undefined]);
  deepEqual(member!.fragments.length, 1, "the template never changes earlier turns");
  const { tokens, spans } = member!.fragments[0]!;
  const model = spans.filter(({ origin }) => origin === "model").map(({ start, end }) =>
    tokens.slice(start, end)
  );
  deepEqual(model, turns);
  const results = spans.filter(({ origin }) => origin === "tool").map(({ start, end }) => {
    return tokenizer.decode(tokens.slice(start, end), { special: true });
  });
  const header = (role: string) => `<|start_header_id|>${role}<|end_header_id|>\n\n`;
  equal(results[0], `${header("ipython")}"ok"<|im_end|>${header("assistant")}`);
});

const asked: Message[] = [
  { role: "user", content: "q" },
  { role: "assistant", content: "<think>\nx\n</think>\n\na", tool_calls: [] },
];
const result: Message = { role: "tool", content: "ok", tool_call_id: "call_0_0", name: "read_file" };

Deno.test("a turn that another token ended gets a forced end token", () => {
  const messages = [...asked, result];
  const frame = encode(
    "\n<|im_start|>user\n<tool_response>\nok\n</tool_response><|im_end|>\n<|im_start|>assistant\n",
  );
  deepEqual(chat.continuation({ messages, turn: 1, tools, ended_by: IM_END }), {
    type: "extend",
    forced: [],
    tokens: frame,
    origin: "tool",
  });
  deepEqual(chat.continuation({ messages, turn: 1, tools, ended_by: ENDOFTEXT }), {
    type: "extend",
    forced: [IM_END],
    tokens: frame,
    origin: "tool",
  });
  deepEqual(chat.stop_tokens.toSorted(), [ENDOFTEXT, IM_END]);
});

Deno.test("an unstable part of a template is rendered again", async () => {
  const { chat } = await tinyChat("llamacpp/Qwen-Qwen3-0.6B.jinja");
  const question: Message = { role: "user", content: "and?" };
  const messages = [...asked, question];
  const anew = chat.continuation({ messages, turn: 1, tools, ended_by: IM_END });
  deepEqual(
    anew,
    { type: "restart", tokens: chat.promptTokens(messages, tools) },
    "before a new one it goes",
  );
});
