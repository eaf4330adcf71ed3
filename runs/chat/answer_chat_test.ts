import assert from "node:assert/strict";
import type { ToolDefinition } from "../../core/chat.ts";
import { ServiceError } from "../../core/errors.ts";
import { answerChat } from "./answer_chat.ts";
import { llama3Renderer, mistralRenderer } from "../../tests/llama3_chat.ts";
import { probeTemplate } from "../../trainer/tokenizer/template_probe.ts";
import { answersOf, chatRequest, testChat } from "../../tests/scripted_chat.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };
const OPEN = new AbortController().signal;

const TOOL: ToolDefinition = { type: "function", function: { name: "add", parameters: { type: "object" } } };

Deno.test("of a stream every block of at most 4 tokens is an event at once", strict, async () => {
  const tokens: number[] = [];
  const { context, engine, turn } = await testChat({ script: () => tokens, block_tokens: 16 });
  tokens.push(...turn("one two three four five six seven eight nine ten"));
  const counts: number[] = [], texts: string[] = [];
  for await (const event of answerChat(chatRequest({ logprobs: true, stream: true }), context, OPEN)) {
    if (!("delta" in event)) continue;
    const { decode_tokens } = await engine.client.call("counters", null);
    texts.push(event.delta.content);
    counts.push(event.delta.tokens.length);
    const told = counts.reduce((sum, count) => sum + count, 0);
    assert.ok(decode_tokens - told <= 8, "an event does not wait for later blocks");
  }
  assert.ok(counts.length > 3 && counts.every((count) => count <= 4), String(counts));
  assert.equal(texts.join(""), "one two three four five six seven eight nine ten");
  assert.deepEqual(engine.openSequences, []);
});

Deno.test(
  "the tokens have their texts, bytes and log-probabilities, without the end of the turn",
  strict,
  async () => {
    let tokens: number[] = [];
    const { context, turn, renderer: { tokenizer } } = await testChat({ script: () => tokens });
    tokens = turn("a — b");
    const events = [];
    for await (const event of answerChat(chatRequest({ logprobs: true }), context, OPEN)) events.push(event);
    const shown = events.flatMap((event) => "delta" in event ? event.delta.tokens : []);
    assert.deepEqual(shown.map(({ text }) => text), tokens.slice(0, -1).map((id) => tokenizer.textOf(id)));
    const bytes = new Uint8Array(shown.flatMap(({ bytes }) => bytes));
    assert.equal(new TextDecoder().decode(bytes), "a — b");
    assert.ok(shown.every(({ logprob }) => logprob <= 0 && Number.isFinite(logprob)));
    assert.equal(answersOf(events)[0]!.tokens, tokens.length, "the end of the turn was sampled too");
    const prompt = context.model.renderer.renderPrompt([{ role: "user", content: "Hi" }], {
      tools: [],
      variables: {},
    });
    assert.deepEqual(events[0], { prompt_tokens: prompt.ids.length });
  },
);

async function answer(text: string, changes: Parameters<typeof chatRequest>[0] = {}) {
  let tokens: number[] = [];
  const { context, turn, engine } = await testChat({ script: () => tokens });
  tokens = turn(text);
  const events = [];
  for await (const event of answerChat(chatRequest(changes), context, OPEN)) events.push(event);
  assert.deepEqual(engine.openSequences, []);
  return answersOf(events);
}

Deno.test("an answer ends by itself, at its limit, at a stop text, or with calls", strict, async () => {
  const [ended] = await answer("Hello");
  assert.deepEqual([ended!.content, ended!.finish], ["Hello", "stop"]);
  const [cut] = await answer("Hello there my friend", { max_tokens: 2 });
  assert.deepEqual([cut!.finish, cut!.tokens], ["length", 2]);
  const [stopped] = await answer("one two three four", { stop: [" thr"] });
  assert.deepEqual([stopped!.content, stopped!.finish], ["one two", "stop"]);
  const call = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>';
  const [called] = await answer(`Sum: ${call}${call}`, { tools: [TOOL] });
  assert.deepEqual([called!.content, called!.finish, called!.calls], [
    "Sum:",
    "tool_calls",
    ['call_0_0 add {"a":1}', 'call_0_1 add {"a":1}'],
  ]);
  assert.deepEqual((await answer(call + call, { tools: [TOOL], one_call: true }))[0]!.calls.length, 1);
  assert.deepEqual((await answer("<think>Hm</think>Yes"))[0]!.reasoning, "Hm");
});

Deno.test("an answer is read in the format of the model's template", strict, async () => {
  const renderer = await llama3Renderer(), probe = probeTemplate(renderer, {});
  const text = '{"name": "add", "parameters": {"a": 1}}';
  let tokens: number[] = [];
  const { context, turn } = await testChat({ script: () => tokens });
  tokens = turn(text);
  const llama3 = { ...context, model: { renderer, probe, variables: {} } };
  const answerTo = async (request: Parameters<typeof chatRequest>[0]) =>
    answersOf(await Array.fromAsync(answerChat(chatRequest(request), llama3, OPEN)))[0]!;
  const called = await answerTo({ tools: [TOOL] });
  assert.deepEqual([called.content, called.calls, called.finish], [
    "",
    ['call_0_0 add {"a":1}'],
    "tool_calls",
  ]);
  const plain = await answerTo({});
  assert.deepEqual([plain.content, plain.calls, plain.finish], [text, [], "stop"]);
});

Deno.test(
  "calls in Mistral's list come after the content, and are continued with their results",
  strict,
  async () => {
    const renderer = await mistralRenderer(), probe = probeTemplate(renderer, {});
    let tokens: number[] = [];
    const { context, turn } = await testChat({ script: () => tokens, block_tokens: 4 });
    const mistral = { ...context, model: { renderer, probe, variables: {} } };
    const answerTo = async (request: Parameters<typeof chatRequest>[0]) =>
      answersOf(
        await Array.fromAsync(answerChat(chatRequest({ tools: [TOOL], ...request }), mistral, OPEN)),
      )[0]!;
    const list = [1, 2].map((a) => ({ name: "add", arguments: { a }, id: `abcdefgh${a}` }));
    tokens = turn(`Both. [TOOL_CALLS] ${JSON.stringify(list)}`);
    const called = await answerTo({});
    assert.deepEqual([called.content, called.calls, called.finish], [
      "Both.",
      ['call_0_0 add {"a":1}', 'call_0_1 add {"a":2}'],
      "tool_calls",
    ]);
    const one = await answerTo({ one_call: true });
    assert.deepEqual([one.calls, one.finish], [['call_0_0 add {"a":1}'], "tool_calls"]);
    const ids = ["call_0_0", "call_0_1"], question = { role: "user" as const, content: "Hi" };
    const tool_calls = ids.map((id, i) => ({
      id,
      type: "function" as const,
      function: { name: "add", arguments: { a: i + 1 } },
    }));
    const results = ids.map((tool_call_id) => ({
      role: "tool" as const,
      content: "3",
      tool_call_id,
      name: "add",
    }));
    tokens = turn("Six.");
    const messages = [question, { role: "assistant" as const, content: "", tool_calls }, ...results];
    assert.deepEqual((await answerTo({ messages })).content, "Six.");
  },
);

Deno.test("choices share the prompt, and each has random numbers of its own", strict, async () => {
  const { context, engine } = await testChat();
  const sample = async (seed: number, at_once: number) => {
    const events = [],
      request = chatRequest({ choices: 4, temperature: 1, seed, max_tokens: 12, logprobs: true });
    for await (const event of answerChat(request, { ...context, at_once }, OPEN)) events.push(event);
    return answersOf(events).map(({ content }) => content);
  };
  const { prefill_tokens: before } = await engine.client.call("counters", null);
  const texts = await sample(1, 8);
  const { prefill_tokens } = await engine.client.call("counters", null);
  const prompt = context.model.renderer.renderPrompt([{ role: "user", content: "Hi" }], {
    tools: [],
    variables: {},
  });
  assert.equal(prefill_tokens - before, prompt.ids.length);
  assert.equal(new Set(texts).size, 4);
  assert.deepEqual(await sample(1, 8), texts, "the same seed gives the same texts");
  assert.deepEqual(await sample(1, 3), texts, "however many are sampled at once");
  assert.notDeepEqual(await sample(2, 8), texts);
});

Deno.test("a client that leaves cancels all choices", strict, async () => {
  const { context, engine } = await testChat({ script: () => "hang" });
  const leave = new AbortController();
  const reading = (async () => {
    for await (const _ of answerChat(chatRequest({ choices: 3 }), context, leave.signal));
  })();
  const { promise, resolve } = Promise.withResolvers<void>();
  setTimeout(resolve);
  await promise;
  leave.abort(new ServiceError("cancelled", "Cannot answer: the client left"));
  await assert.rejects(reading, { code: "cancelled" });
  assert.deepEqual(engine.openSequences, []);
});

Deno.test("a prompt that leaves no room is refused at its messages", strict, async () => {
  const { context } = await testChat({ max_context: 16 });
  const messages = [{ role: "user" as const, content: "word ".repeat(50) }];
  const refused = answerChat(chatRequest({ messages }), context, OPEN).next();
  await assert.rejects(refused, (error: ServiceError) => {
    assert.deepEqual([error.code, error.details], ["config_invalid", { field: "/messages", is_range: true }]);
    return true;
  });
});

Deno.test("a prompt that cannot fit is refused without encoding it", strict, async () => {
  const { context, renderer: { tokenizer } } = await testChat({ max_context: 256 });
  const { encode } = tokenizer, encoded: number[] = [];
  tokenizer.encode = (text, options) => {
    encoded.push(text.length);
    return encode.call(tokenizer, text, options);
  };
  const messages = [{ role: "user" as const, content: "word ".repeat(1 << 15) }];
  await assert.rejects(answerChat(chatRequest({ messages }), context, OPEN).next(), (error: ServiceError) => {
    assert.deepEqual([error.code, error.details], ["config_invalid", { field: "/messages", is_range: true }]);
    assert.match(error.message, /take at least \d+ tokens, and the context has 256; send less/);
    return true;
  });
  assert.deepEqual(encoded, []);
});

Deno.test("a schema goes to the engine as a mask, and its refusal names the place", strict, async () => {
  const asked: unknown[] = [];
  const { context } = await testChat({
    refuse: (method, request) => {
      if (method === "sequence_generate") {
        asked.push((request as { sampling: { mask: unknown } }).sampling.mask);
      }
    },
  });
  const schema = '{"type":"array","contains":{}}';
  await assert.rejects(answerChat(chatRequest({ schema }), context, OPEN).next(), (error: ServiceError) => {
    assert.deepEqual([error.code, error.details.pointer, error.details.keyword], [
      "config_invalid",
      "/contains",
      "contains",
    ]);
    return true;
  });
  assert.deepEqual(asked, [{ type: "json_schema", schema }]);
});

Deno.test(
  "messages that the chat template refuses are named as what is wrong, without the file's path",
  strict,
  async () => {
    const { context } = await testChat();
    const renderPrompt = () => {
      const message = "Cannot render the chat template of /secret/model.gguf: roles must alternate";
      throw new ServiceError("template_failed", message, {}, { cause: new Error("roles must alternate") });
    };
    const renderer = { ...context.model.renderer, renderPrompt } as never;
    const refused = answerChat(chatRequest(), { ...context, model: { ...context.model, renderer } }, OPEN)
      .next();
    await assert.rejects(refused, {
      code: "template_failed",
      message: "Cannot answer: the chat template refuses the messages: roles must alternate",
      details: { field: "/messages" },
    });
  },
);
