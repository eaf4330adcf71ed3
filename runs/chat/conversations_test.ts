import assert from "node:assert/strict";
import type { Message, ToolDefinition } from "../../core/chat.ts";
import { withFolder } from "../../tests/folder.ts";
import { LineTables } from "../views/update_lines.ts";
import { ObservedRun } from "../views/observed_run.ts";
import { answerChat, type ChatModel } from "./answer_chat.ts";
import type { ChatRequest } from "./chat_request.ts";
import { answersOf, chatRequest, testChat } from "../../tests/scripted_chat.ts";
import { Conversations } from "./conversations.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };
const TOOL: ToolDefinition = { type: "function", function: { name: "add", parameters: { type: "object" } } };
const CALL = '<tool_call>\n{"name": "add",  "arguments": {"a": 1}}\n</tool_call>';

const question: Message = { role: "user", content: "Sum" };
const called: Message = {
  role: "assistant",
  content: "Well:",
  tool_calls: [{ id: "call_0_0", type: "function", function: { name: "add", arguments: { a: 1 } } }],
};
const result: Message = { role: "tool", content: "The sum is 3", tool_call_id: "call_0_0", name: "add" };

/** Answers requests, each with its text, and records them. */
async function recorded(
  directory: string,
  turns: readonly { request: Partial<ChatRequest>; text: string; version?: string }[],
  change: (model: ChatModel) => ChatModel = (model) => model,
) {
  const texts: number[][] = [];
  const { context, turn, engine } = await testChat({ script: () => texts.shift() });
  const conversations = await Conversations.open({ directory, name: "recorded" });
  const model = change(context.model);
  for (const { request, text, version = "" } of turns) {
    texts.push(...Array.from({ length: request.choices ?? 1 }, () => turn(text)));
    const recorder = conversations.recorder(model, version), events = [];
    const asked = chatRequest({ tools: [TOOL], ...request });
    for await (
      const event of answerChat(asked, { ...context, model, recorder }, new AbortController().signal)
    ) {
      events.push(event);
    }
    assert.ok(answersOf(events).length > 0);
  }
  return { observed: new ObservedRun(directory, new LineTables()), turn, engine };
}

/** The tokens of a conversation by origin, as the reader of observe directories shows them. */
async function tokensOf(observed: ObservedRun, update: number) {
  const page = await observed.tokens({ update, group: 0, member: 0 }, { after: -1, limit: 5000 });
  return page!.items;
}

Deno.test(
  "a conversation of many requests is one trajectory of the sampled tokens",
  strict,
  () =>
    withFolder(async (folder) => {
      // The text has two spaces, which its call as a message does not: rendered again it would have other tokens.
      const { observed, turn } = await recorded(folder, [
        { request: { messages: [question] }, text: `<think>Hm</think>Well: ${CALL}` },
        { request: { messages: [question, called, result] }, text: "It is 3." },
      ]);
      const { updates } = await observed.index();
      assert.deepEqual(updates.map(({ update, run_name }) => [update, run_name]), [[1, "recorded"]]);
      const tokens = await tokensOf(observed, 1);
      const sampled = tokens.filter(({ origin }) => origin === "model");
      assert.deepEqual(sampled.map(({ id }) => id), [
        ...turn(`<think>Hm</think>Well: ${CALL}`),
        ...turn("It is 3."),
      ]);
      assert.ok(sampled.every(({ sampler_logprob }) => sampler_logprob !== null && sampler_logprob <= 0));
      const text = tokens.filter(({ origin }) => origin === "tool").map(({ text }) => text).join("");
      assert.match(text, /The sum is 3/);
      assert.equal(new Set(tokens.map(({ origin }) => origin)).size, 3, "prompt, model and tool");
      const group = await observed.group({ update: 1, group: 0 }, { after: -1, limit: 10 });
      const member = group!.members.items[0]!;
      assert.deepEqual([group!.graded_by, member.stop_reason, member.total_reward], [
        null,
        "no_tool_call",
        null,
      ]);
      assert.deepEqual(member.messages!.map(({ role }) => role), ["user", "assistant", "tool", "assistant"]);
      assert.equal(member.turns![0]!.calls![0]!.result, "The sum is 3");
    }),
);

Deno.test(
  "another branch, other weights and edited messages are conversations of their own",
  strict,
  () =>
    withFolder(async (folder) => {
      const again = { messages: [question, called, result] };
      const edited = { messages: [{ ...question, content: "Add" }, called, result] };
      const { observed } = await recorded(folder, [
        { request: { messages: [question], choices: 2 }, text: `Well: ${CALL}` },
        { request: again, text: "It is 3." },
        { request: again, text: "Three." },
        { request: again, text: "It is 3.", version: "other" },
        { request: edited, text: "It is 3." },
      ]);
      const { updates } = await observed.index();
      const turns = [];
      for (const { update } of updates) {
        const group = await observed.group({ update, group: 0 }, { after: -1, limit: 1 });
        turns.push(group!.members.items[0]!.turns!.length);
      }
      // Two choices, of which the second goes on; its second branch; two requests that nothing recorded precedes.
      assert.deepEqual(turns, [1, 2, 2, 1, 1]);
    }),
);

Deno.test(
  "a template that rewrites turns makes a fragment of each",
  strict,
  () =>
    withFolder(async (folder) => {
      const { observed } = await recorded(
        folder,
        [
          { request: { messages: [question] }, text: `Well: ${CALL}` },
          { request: { messages: [question, called, result] }, text: "It is 3." },
        ],
        (model) => ({ ...model, probe: { ...model.probe, tool_loop_stable: false } }),
      );
      const group = await observed.group({ update: 1, group: 0 }, { after: -1, limit: 1 });
      assert.equal(group!.members.items[0]!.fragments!.length, 2);
      const tokens = await tokensOf(observed, 1);
      assert.equal(tokens.filter(({ origin }) => origin === "tool").length, 0);
    }),
);

Deno.test(
  "an answer that a stop text ended is not gone on with, and later numbers follow those of the directory",
  strict,
  () =>
    withFolder(async (folder) => {
      const said: Message = { role: "assistant", content: "one" };
      const turns = [
        { request: { messages: [question], stop: ["two"] }, text: "one two" },
        { request: { messages: [question, said, question] }, text: "three" },
      ];
      await recorded(folder, turns);
      const { observed } = await recorded(folder, turns.slice(0, 1));
      assert.deepEqual((await observed.index()).updates.map(({ update }) => update), [1, 2, 3]);
    }),
);
