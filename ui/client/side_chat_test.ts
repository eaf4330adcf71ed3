import assert from "node:assert/strict";
import type { ChatCompletionChunk } from "../../api/types.ts";
import { Unreachable } from "./api.ts";
import { apiWith } from "./api_testing.ts";
import { type ChatModel, SideChat, withChunk } from "./side_chat.ts";

const OPTIONS = { system: "be brief", max_tokens: 9, temperature: 0, seed: 3 };
const MODELS: ChatModel[] = [
  { run: "run_a", has_adapter: false, base: "m" },
  { run: "run_a", has_adapter: true, base: "m" },
  { run: "run_b", has_adapter: true, base: "other" },
];

type Delta = ChatCompletionChunk["choices"][number]["delta"];

function chunk(delta: Delta, finish_reason: "stop" | "length" | null = null): ChatCompletionChunk {
  const choices = [{ index: 0, delta, logprobs: null, finish_reason }];
  return { id: "c", object: "chat.completion.chunk", created: 0, model: "m", choices };
}

function stream(...events: unknown[]): Response {
  const text = events.map((event) => `data: ${event === "[DONE]" ? event : JSON.stringify(event)}\n\n`).join(
    "",
  );
  return new Response(text, { headers: { "content-type": "text/event-stream" } });
}

const said = (chat: SideChat) =>
  chat.columns.map(({ turns }) => turns.value.map(({ role, text }) => `${role}: ${text}`));

Deno.test("all models get the message and what was said with each of them, and their answers are joined", async () => {
  const { api, requests } = apiWith(async (request) => {
    const { model } = await request.clone().json();
    return stream(
      chunk({ role: "assistant", content: "" }),
      chunk({ content: "I am " }),
      chunk({ content: model }),
      "[DONE]",
    );
  });
  const chat = new SideChat(api, MODELS, true);
  await chat.send("who?", OPTIONS);
  await chat.send("sure?", OPTIONS);
  assert.deepEqual(said(chat)[0], [
    "user: who?",
    "assistant: I am run_a@base",
    "user: sure?",
    "assistant: I am run_a@base",
  ]);
  assert.deepEqual(said(chat).map((turns) => turns.at(-1)), [
    "assistant: I am run_a@base",
    "assistant: I am run_a",
    "assistant: I am run_b",
  ]);
  const last = await requests.at(-1)!.json();
  assert.deepEqual(last, {
    model: "run_b",
    messages: [
      { role: "system", content: "be brief" },
      { role: "user", content: "who?" },
      { role: "assistant", content: "I am run_b" },
      { role: "user", content: "sure?" },
    ],
    ...{ max_completion_tokens: 9, temperature: 0, seed: 3, stream: true },
  });
});

Deno.test("each model is offered the tools of its own run", async () => {
  for (const is_streamed of [true, false]) {
    const message = { role: "assistant", content: "ok" };
    const { api, requests } = apiWith(() =>
      is_streamed
        ? stream(chunk({ content: "x" }), "[DONE]")
        : Response.json({ message, stop_reason: "stop" })
    );
    const tool = { type: "function" as const, function: { name: "say", description: "", parameters: {} } };
    const chat = new SideChat(api, MODELS, is_streamed);
    await chat.send("hi", { ...OPTIONS, tools: new Map([["run_a", [tool]], ["run_b", []]]) });
    const bodies = await Promise.all(requests.map((request) => request.json()));
    assert.deepEqual(bodies.map(({ tools }) => tools), [[tool], [tool], undefined]);
  }
});

Deno.test("models of one base are asked together, and those of another when these have answered", async () => {
  const waiting: (() => void)[] = [], asked: string[] = [];
  const { api } = apiWith(async (request) => {
    asked.push((await request.json()).model);
    await new Promise<void>((resolve) => waiting.push(resolve));
    return stream(chunk({ content: "x" }), "[DONE]");
  });
  const chat = new SideChat(api, MODELS, true), sent = chat.send("hi", OPTIONS);
  const until = async (count: number) => {
    while (asked.length < count) await new Promise((resolve) => setTimeout(resolve, 0));
  };
  await until(2);
  assert.deepEqual(asked, ["run_a@base", "run_a"]);
  waiting.forEach((answer) => answer());
  await until(3);
  waiting.at(-1)!();
  await sent;
  assert.deepEqual(asked, ["run_a@base", "run_a", "run_b"]);
});

Deno.test("without serving each run generates a whole answer, one after the other", async () => {
  const { api, requests } = apiWith(() =>
    Response.json({
      message: {
        role: "assistant",
        content: "ok",
        tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: { a: 1 } } }],
      },
      ...{
        token_ids: [],
        logprobs: [],
        stop_reason: "length",
        usage: { prompt_tokens: 1, completion_tokens: 1 },
      },
    })
  );
  const chat = new SideChat(api, MODELS.slice(0, 2), false);
  await chat.send("hi", OPTIONS);
  assert.deepEqual(
    requests.map(({ url }) => new URL(url).pathname),
    Array(2).fill("/v1/runs/run_a/generate"),
  );
  const bodies = await Promise.all(requests.map((request) => request.json()));
  assert.deepEqual(bodies.map(({ adapter }) => adapter), [false, true]);
  assert.equal(bodies[0].max_new_tokens, 9);
  const turn = chat.columns[0]!.turns.value[1]!;
  assert.deepEqual([turn.text, turn.calls, turn.is_cut], ["ok", [{ name: "f", arguments: '{"a":1}' }], true]);
});

Deno.test("a failure stays in its column, and the next message takes the place of the unanswered one", async () => {
  let is_broken = true;
  const { api, requests } = apiWith(async (request) => {
    const { model } = await request.clone().json();
    if (model === "run_b" && is_broken) return Promise.reject(new TypeError("away"));
    return is_broken && model === "run_a"
      ? stream(chunk({ content: "ha" }))
      : stream(chunk({ content: "yes" }), "[DONE]");
  });
  const chat = new SideChat(api, MODELS, true), [base, adapter, other] = chat.columns;
  await chat.send("one", OPTIONS);
  assert.deepEqual([base, adapter, other].map((column) => column!.error.value instanceof Unreachable), [
    ...[false, true, true],
  ]);
  is_broken = false;
  await chat.send("two", OPTIONS);
  assert.equal(other!.error.value, null);
  assert.deepEqual((await requests.at(-1)!.json()).messages.slice(1), [{ role: "user", content: "two" }]);
  assert.deepEqual(chat.columns.map(({ state }) => state.value), ["idle", "idle", "idle"]);
});

Deno.test("a failure after the beginning of an answer is told in the server's words", async () => {
  const { api } = apiWith(() =>
    stream(chunk({ content: "a" }), {
      error: { message: "device lost", type: "server_error", param: null, code: "internal" },
    })
  );
  const chat = new SideChat(api, MODELS.slice(0, 1), true);
  await chat.send("hi", OPTIONS);
  assert.equal((chat.columns[0]!.error.value as Error).message, "device lost");
});

Deno.test("thinking, calls and the end of a chunk are kept apart from its text", () => {
  const start = { role: "assistant" as const, text: "", thinking: "", calls: [], is_cut: false };
  const call = { index: 0, id: "c", type: "function" as const, function: { name: "f", arguments: "{}" } };
  const chunks = [
    chunk({ reasoning_content: "hm" }),
    chunk({ content: "a" }),
    chunk({ tool_calls: [call] }, "length"),
  ];
  assert.deepEqual(chunks.reduce(withChunk, start), {
    ...{
      role: "assistant",
      text: "a",
      thinking: "hm",
      calls: [{ name: "f", arguments: "{}" }],
      is_cut: true,
    },
  });
});
