import assert from "node:assert/strict";
import type { ChatMessage } from "../../core/chat.ts";
import { ManualClock } from "../../core/clock_fake.ts";
import { withFolder } from "../../tests/folder.ts";
import { JudgeCache } from "./judge_cache.ts";
import { type JudgedAttempt, seenGroup } from "./judged_group.ts";
import {
  type BaseModel,
  localForm,
  LocalJudge,
  longestAnswer,
  MAX_LOCAL_EXPLANATION_CHARS,
} from "./local_judge.ts";
import { type JudgeQuestion, type JudgeReply, RulerJudge } from "./ruler_judge.ts";
import { DEFAULT_RUBRIC, rulerRequest } from "./ruler_request.ts";

const OPEN = new AbortController().signal;
const CONTEXT = 4096;
const QUESTION: JudgeQuestion = { messages: [], schema: {} };

/** The tokens of messages: their bytes. */
const tokensOf = (messages: readonly ChatMessage[]) =>
  messages.reduce((sum, { content }) => sum + new TextEncoder().encode(content!).length, 0);

/** A model whose tokens are bytes, and which scores by the place in the document. */
function byteModel(changes: Partial<BaseModel> = {}): BaseModel & { asked: JudgeQuestion[] } {
  const asked: JudgeQuestion[] = [];
  return {
    asked,
    max_context: CONTEXT,
    control_texts: [],
    identity: () => Promise.resolve("m"),
    fits: (messages, max_tokens) => tokensOf(messages) <= max_tokens,
    encode: (text) => [...new TextEncoder().encode(text)],
    decode: (ids) => new TextDecoder().decode(Uint8Array.from(ids)),
    answer(question) {
      asked.push(question);
      const { trajectories } = JSON.parse(question.messages[1]!.content!);
      const scores = trajectories.map(({ trajectory_id }: { trajectory_id: string }) => ({
        ...{ trajectory_id, explanation: "so", score: Number(trajectory_id) / 10 },
      }));
      return Promise.resolve({ text: JSON.stringify({ scores }), is_cut_off: false, tokens: 7 });
    },
    ...changes,
  };
}

const attempt = (content: string): JudgedAttempt => ({
  messages: [{ role: "user", content: "Add 2 and 3." }, { role: "assistant", content }],
  state: null,
});

const groupOf = (...texts: string[]) => ({ rubric: null, tools: [], attempts: texts.map(attempt) });
const inOrder = (count: number) => Array.from({ length: count }, (_, i) => i);

function request(model: BaseModel, texts: readonly string[]) {
  const seen = seenGroup(texts.map(attempt)), order = inOrder(seen.distinct.length);
  return rulerRequest({ rubric: DEFAULT_RUBRIC, tools: [], seen, order, form: localForm(model) });
}

const opened = (model: BaseModel | null) =>
  new LocalJudge({ model, timeout_secs: 20, clock: new ManualClock() });

Deno.test("a base model scores a group by one question, and the same group gets the same scores", async () => {
  const model = byteModel(), judge = new RulerJudge({ model: opened(model), cache: null });
  await judge.start(OPEN);
  const judged = await judge.judge(groupOf("4", "5", "4"), (count) => inOrder(count).reverse(), OPEN);
  assert.deepEqual(judged.scores.map(({ score }) => score), [0.2, 0.1, 0.2]);
  assert.deepEqual([judged.tokens, model.asked.length, judge.deterministic], [7, 1, true]);
});

Deno.test("a prompt and its longest answer fit in the context, and texts are cut by tokens", () => {
  // An umlaut is one character and two tokens.
  const texts = Array.from({ length: 4 }, (_, i) => `begin${i}${"ü".repeat(5000)}end${i}`);
  for (const max_context of [3500, CONTEXT, 20_000]) {
    const { messages, schema, ids } = request(byteModel({ max_context }), texts);
    const most = max_context - longestAnswer(ids, explanationsOf(schema)[0]!);
    assert.ok(
      tokensOf(messages) <= most && tokensOf(messages) > most - 50,
      `${tokensOf(messages)} of ${most}`,
    );
    const { trajectories } = JSON.parse(messages[1]!.content!);
    for (const [i, { messages: [{ content }] }] of trajectories.entries()) {
      const [, begin, missing, end] = /^begin\d(ü*)\[… (\d+) tokens left out …\](ü*)end\d$/.exec(content)!;
      assert.ok(Math.abs(2 * (begin!.length + end!.length) + Number(missing) - 10_000) <= 2, `text ${i}`);
      // As many tokens of the text as a limit in tokens allows are there, before and after the marker.
      assert.ok(Math.abs(begin!.length - end!.length) <= 3, `${begin!.length} and ${end!.length}`);
    }
  }
});

/** The longest explanations that a schema allows. */
function explanationsOf(schema: object): number[] {
  return [...JSON.stringify(schema).matchAll(/\{0,(\d+)\}/g)].map(([, most]) => Number(most));
}

Deno.test("explanations share a third of the context, and are left out where there are too many attempts", () => {
  const longest = (attempts: number, max_context: number) => {
    const ids = inOrder(attempts).map((i) => `${i + 1}`), form = localForm(byteModel({ max_context }));
    const all = explanationsOf(form.schema(ids));
    assert.deepEqual(all, Array(attempts).fill(all[0]));
    return { chars: all[0]!, tokens: longestAnswer(ids, all[0]!) };
  };
  assert.equal(longest(2, CONTEXT).chars, MAX_LOCAL_EXPLANATION_CHARS);
  const shared = longest(8, 3000);
  assert.ok(shared.chars > 0 && shared.tokens <= 1000 && shared.tokens > 1000 - 8, `${shared.tokens}`);
  assert.equal(longest(30, 3000).chars, 0);
});

Deno.test("a group that is too large for the context fails with the key and the room of its answer", async () => {
  // 56 characters for each attempt, one more for each id of two digits, and the brackets, commas and the stop token.
  const texts = Array.from({ length: 30 }, (_, i) => `${i}`), answer = 30 * 56 + 21 + 29 * 2 + 13 + 2 + 1;
  const judge = new RulerJudge({ model: opened(byteModel({ max_context: 3000 })), cache: null });
  await assert.rejects(judge.judge(groupOf(...texts), inOrder, OPEN), {
    message:
      `the group does not fit in training.ctx (3000 tokens, of which the answer may take ${answer}), ` +
      "however much is left out; raise it, or lower agent.group_size",
  });
});

Deno.test("a text in an attempt does not become a control token", () => {
  const model = byteModel({ control_texts: ["<|im_end|>", "<s>", "[INST]", "unk"] });
  const text = 'a\\<|im_end|>\n<<s> [INST] "unk" <b>';
  const content = request(model, [text, "b"]).messages[1]!.content!;
  for (const control of ["<|im_end|>", "<s>", "[INST]"]) assert.ok(!content.includes(control), content);
  assert.ok(content.includes("<b>"));
  assert.equal(JSON.parse(content).trajectories[0].messages[0].content, text);
});

/** Lets everything happen that waits for nothing else. */
async function turns(): Promise<void> {
  for (let i = 0; i < 50; i++) await Promise.resolve();
}

Deno.test("questions wait for each other, also for one that was given up", async () => {
  const answers: PromiseWithResolvers<JudgeReply>[] = [];
  const answer = () => {
    const next = Promise.withResolvers<JudgeReply>();
    answers.push(next);
    return next.promise;
  };
  const judge = opened(byteModel({ answer })), stop = new AbortController();
  const reply = { text: "", is_cut_off: false, tokens: 1 };
  const given_up = judge.ask(QUESTION, stop.signal), waiting = judge.ask(QUESTION, OPEN);
  await turns();
  stop.abort(new Error("stopped"));
  await assert.rejects(given_up, /the judge was cancelled/);
  await turns();
  assert.equal(answers.length, 1, "its sequence is not closed yet");
  answers[0]!.reject(new Error("cancelled"));
  await turns();
  assert.equal(answers.length, 2);
  answers[1]!.resolve(reply);
  assert.deepEqual(await waiting, reply);
});

Deno.test("a question has a limit of time", async () => {
  const clock = new ManualClock();
  const model = byteModel({
    answer: (_question, signal) =>
      new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
  });
  const judge = new LocalJudge({ model, timeout_secs: 20, clock });
  const asked = judge.ask(QUESTION, OPEN);
  asked.catch(() => {});
  await turns();
  assert.equal(clock.sleeping, 1);
  await clock.advance(20_000);
  await assert.rejects(asked, /the judge gave no answer within 20 s/);
  assert.equal(clock.sleeping, 0);
});

Deno.test("kept judgements are those of the same base model", () =>
  withFolder(async (root) => {
    const asked = async (name: string) => {
      const model = byteModel({ identity: () => Promise.resolve(name) });
      const cache = new JudgeCache(`${root}/kept.jsonl`);
      const judge = new RulerJudge({ model: opened(model), cache });
      await judge.start(OPEN);
      const { scores } = await judge.judge(groupOf("4", "5"), inOrder, OPEN);
      cache.close();
      assert.deepEqual(scores.map(({ score }) => score), [0.1, 0.2]);
      return model.asked.length;
    };
    assert.deepEqual([await asked("m"), await asked("m"), await asked("other")], [1, 0, 1]);
  }));
