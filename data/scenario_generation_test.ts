import assert from "node:assert/strict";
import type { ChatMessage } from "../core/chat.ts";
import { parseObject } from "./jsonl.ts";
import { scenarioParser } from "./scenario.ts";
import {
  type GeneratedTask,
  generateTasks,
  generationMessages,
  MAX_REPEATED_CHARS,
  readAnswer,
  requestLimit,
  scenarioLines,
  TASKS_PER_REQUEST,
} from "./scenario_generation.ts";

const TOOL = {
  type: "function" as const,
  function: { name: "write_file", description: "Write.", parameters: {} },
};

/** Words that no two numbers share. */
const words = (n: number) => ["list", "join", "sort", "sum"].map((word) => `${word}${n}`).join(" ");

/** The numbers of tasks that a request asks for, by difficulty. */
function wantedIn(messages: readonly ChatMessage[]): Record<number, number> {
  const text = messages[1]!.content!;
  return Object.fromEntries(
    [...text.matchAll(/^- (\d+) of difficulty (\d)$/gm)].map(([, n, level]) => [Number(level), Number(n)]),
  );
}

/** A model that writes what it is asked for; `change` may spoil an answer. */
function model(change: (answer: string, request: number) => string = (answer) => answer) {
  const requests: (readonly ChatMessage[])[] = [];
  let n = 0;
  const ask = (messages: readonly ChatMessage[]) => {
    requests.push(messages);
    const scenarios = Object.entries(wantedIn(messages)).flatMap(([level, count]) =>
      Array.from({ length: count }, (): GeneratedTask => ({ task: words(n++), difficulty: Number(level) }))
    );
    return Promise.resolve(change(JSON.stringify({ scenarios }), requests.length));
  };
  return { ask, requests };
}

const levelsOf = (tasks: readonly GeneratedTask[]) =>
  [1, 2, 3, 4, 5].map((level) => tasks.filter(({ difficulty }) => difficulty === level).length);

Deno.test("tasks of all difficulties are asked for in batches until there are enough", async () => {
  const { ask, requests } = model();
  const { tasks, ...more } = await generateTasks({ tools: [TOOL], count: 43, seed: 1 }, ask);
  assert.deepEqual(levelsOf(tasks), [9, 9, 9, 8, 8]);
  assert.deepEqual(more, { requests: 3, duplicates: 0, broken: 0, problem: null, error: null });
  assert.deepEqual(wantedIn(requests[0]!), { 1: 4, 2: 4, 3: 4, 4: 4, 5: 4 });
  assert.deepEqual(wantedIn(requests[2]!), { 1: 1, 2: 1, 3: 1 });
  // The tools, and what is there already.
  assert.match(requests[0]![1]!.content!, /"write_file"/);
  assert.ok(!requests[0]![1]!.content!.includes("there already"));
  assert.ok(requests[1]![1]!.content!.includes(words(TASKS_PER_REQUEST - 1)));
});

Deno.test("the seed determines the order, and nothing else", async () => {
  const ordered = async (seed: number) => {
    const { tasks } = await generateTasks({ tools: [TOOL], count: 20, seed }, model().ask);
    return tasks.map(({ task }) => task);
  };
  const [one, again, other] = await Promise.all([ordered(1), ordered(1), ordered(2)]);
  assert.deepEqual(one, again);
  assert.notDeepEqual(one, other);
  assert.deepEqual(one!.toSorted(), other!.toSorted());
});

Deno.test("near-duplicates are removed and others asked for, in a bounded number of requests", async () => {
  const doubled = model((answer, request) =>
    request === 1 ? answer.replace(words(1), `${words(0)}!`) : answer
  );
  const { tasks, duplicates, requests } = await generateTasks(
    { tools: [TOOL], count: 10, seed: 1 },
    doubled.ask,
  );
  assert.deepEqual([tasks.length, requests], [10, 2]);
  assert.equal(duplicates, 1);
  const same = JSON.stringify({ scenarios: [{ task: "Say it.", difficulty: 3 }] });
  const stuck = model(() => same);
  const found = await generateTasks({ tools: [TOOL], count: 50, seed: 1 }, stuck.ask);
  assert.deepEqual([found.tasks.length, found.requests], [1, requestLimit(50)]);
  assert.equal(found.requests, 9);
  assert.equal(found.duplicates, 8);
});

Deno.test("where a difficulty is not to be had, others fill the number", async () => {
  const easy = model((answer) => answer.replaceAll(/"difficulty":\d/g, '"difficulty":1'));
  const { tasks, requests } = await generateTasks({ tools: [TOOL], count: 20, seed: 1 }, easy.ask);
  assert.deepEqual([levelsOf(tasks), requests], [[20, 0, 0, 0, 0], requestLimit(20)]);
});

Deno.test("a broken answer is repaired once, and an error keeps what is there", async () => {
  const { ask, requests } = model((answer, request) => request === 1 ? answer.slice(0, -3) : answer);
  const { tasks, broken } = await generateTasks({ tools: [TOOL], count: 5, seed: 1 }, ask);
  assert.deepEqual([tasks.length, broken, requests.length], [5, 0, 2]);
  const [, , said, again] = requests[1]!;
  assert.deepEqual([said!.role, again!.role], ["assistant", "user"]);
  assert.match(again!.content!, /cannot be used: it is not JSON/);
  const never = model(() => "I would rather not.");
  const none = await generateTasks({ tools: [TOOL], count: 5, seed: 1 }, never.ask);
  assert.deepEqual([none.tasks, none.broken, never.requests.length], [[], 3, 6]);
  assert.match(none.problem!, /^it is not JSON/);
  const gone = new Error("gone");
  const dying = model();
  const found = await generateTasks(
    { tools: [TOOL], count: 40, seed: 1 },
    (messages) => dying.requests.length === 1 ? Promise.reject(gone) : dying.ask(messages),
  );
  assert.deepEqual([found.tasks.length, found.error], [20, gone]);
});

Deno.test("an answer is read between a fence, thoughts and other text, and its form is checked", () => {
  const good = '{"scenarios": [{"task": " Do it. ", "difficulty": 2, "note": 1}]}';
  const read = [{ task: "Do it.", difficulty: 2 }];
  for (
    const text of [
      good,
      `\n\`\`\`json\n${good}\n\`\`\`\n`,
      `\`\`\`\n${good}\`\`\``,
      `Here: ${good}`,
      `<think>${good}?</think>${good}`,
    ]
  ) {
    assert.deepEqual(readAnswer(text), read, text);
  }
  const bad: [string, RegExp][] = [
    ["", /not JSON/],
    [`Here: ${good} or ${good}`, /^it has 2 JSON objects with "scenarios", not one$/],
    ['{"scenarios": []}', /no task/],
    ['{"tasks": []}', /scenarios/],
    ['{"scenarios": [{"task": "x", "difficulty": 6}]}', /difficulty/],
    ['{"scenarios": [{"task": "  ", "difficulty": 1}]}', /task/],
    [`{"scenarios": ${"[".repeat(100)}${"]".repeat(100)}}`, /nested/],
  ];
  for (const [text, reason] of bad) {
    const found = readAnswer(text);
    assert.ok(
      typeof found === "string" && reason.test(found),
      `${text.slice(0, 60)}: ${JSON.stringify(found)}`,
    );
  }
});

Deno.test("a request repeats the newest tasks up to its limit, each on a line", () => {
  const known = Array.from(
    { length: 300 },
    (_, n) => ({ task: `${words(n)}\n${"x".repeat(40)}`, difficulty: 1 }),
  );
  const text = generationMessages([TOOL], [1, 0, 0, 0, 0], known)[1]!.content!;
  assert.ok(text.includes(`- ${words(299)} xxx`) && !text.includes(words(0)));
  assert.ok(text.length < MAX_REPEATED_CHARS + 2000);
});

Deno.test("the lines are a scenario file", () => {
  const tasks = Array.from({ length: 10 }, (_, n) => ({ task: `Do "${n}"\n`, difficulty: 3 }));
  const parse = scenarioParser();
  const read = scenarioLines(tasks).map((text, i) => {
    const place = { path: "s.jsonl", line: i + 1 };
    return parse(parseObject(place.path, { text, line: place.line }), place);
  });
  assert.deepEqual(read.map(({ user }) => user), tasks.map(({ task }) => task));
  assert.deepEqual([read[0]!.id, read[9]!.id, read[0]!.metadata], ["generated-01", "generated-10", {
    difficulty: 3,
  }]);
});
