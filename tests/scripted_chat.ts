/** A scripted engine with the tokenizer and template of a real model, for tests of chats. */

import { fixturePath } from "./fixture.ts";
import { ScriptedEngine, type ScriptedEngineOptions } from "../trainer/engine/scripted_engine_fake.ts";
import { openGguf } from "../trainer/formats/gguf.ts";
import { ChatTemplate } from "../trainer/tokenizer/chat_template.ts";
import { readTokenizer } from "../trainer/tokenizer/read_tokenizer.ts";
import { Renderer } from "../trainer/tokenizer/renderer.ts";
import { probeTemplate } from "../trainer/tokenizer/template_probe.ts";
import type { ChatContext } from "../runs/chat/answer_chat.ts";
import type { ChatEvent, ChatRequest } from "../runs/chat/chat_request.ts";

/** The file of the model whose tokenizer and template are used. */
const CHAT_MODEL = "models/tiny-agent-f16.gguf";

const LOADED = {
  device: { device: "auto", webgpu: "auto" },
  compute: "auto",
  kv: "auto",
  max_sequences: 8,
  kv_tokens: 1 << 16,
  micro_batch_tokens: 512,
  loss_chunk_rows: 64,
} as const;

/** An engine, and what an answer needs. Scripts give texts; each turn ends with the model's end token. */
export async function testChat(options: ScriptedEngineOptions & { max_context?: number } = {}) {
  const path = await fixturePath(CHAT_MODEL);
  using file = await openGguf(path);
  const renderer = new Renderer(readTokenizer(file), ChatTemplate.fromGguf(file));
  const { tokenizer } = renderer, { max_context = 2048, ...rest } = options;
  const end = renderer.turnEnd({ tools: [], variables: {} })!.id;
  const engine = new ScriptedEngine({ vocabulary: tokenizer.size, tokens: tokenizer, ...rest });
  await engine.client.call("load", { ...LOADED, path, max_context });
  const context: ChatContext = {
    engine: engine.client,
    model: { renderer, probe: probeTemplate(renderer, {}), variables: {} },
    adapter: null,
    max_context,
    at_once: 8,
    recorder: null,
  };
  const turn = (text: string) => [...tokenizer.encode(text, { special: true }), end];
  return { engine, context, renderer, turn };
}

/** A request for one answer to one question. */
export function chatRequest(changes: Partial<ChatRequest> = {}): ChatRequest {
  return {
    messages: [{ role: "user", content: "Hi" }],
    tools: [],
    choices: 1,
    max_tokens: null,
    temperature: 0,
    top_p: 1,
    seed: 0,
    stop: [],
    one_call: false,
    schema: null,
    logprobs: false,
    stream: false,
    ...changes,
  };
}

/** The answers that events tell, by choice. */
export function answersOf(events: readonly ChatEvent[]) {
  const answers: { content: string; reasoning: string; calls: string[]; finish: string; tokens: number }[] =
    [];
  for (const event of events) {
    if ("prompt_tokens" in event) continue;
    const answer = answers[event.choice] ??= { content: "", reasoning: "", calls: [], finish: "", tokens: 0 };
    if ("finish" in event) {
      answer.finish = event.finish;
      answer.tokens = event.completion_tokens;
      continue;
    }
    answer.content += event.delta.content;
    answer.reasoning += event.delta.reasoning;
    answer.calls.push(...event.delta.calls.map(({ id, name, arguments: args }) => `${id} ${name} ${args}`));
  }
  return answers;
}
