import assert from "node:assert/strict";
import {
  MAX_ANSWER_CHARS,
  MAX_EXPLANATION_CHARS,
  MAX_PROBLEMS,
  MAX_QUOTED_CHARS,
  readAnswer,
} from "./ruler_answer.ts";
import { MAX_STARTS } from "../../core/chat_api/answer_objects.ts";

const entry = (trajectory_id: unknown, score: unknown, explanation: unknown = "because") => ({
  trajectory_id,
  explanation,
  score,
});

const answer = (...scores: unknown[]) => JSON.stringify({ scores });

const scoresOf = (text: string, ids = ["1", "2"]) => {
  const read = readAnswer(text, ids);
  return "scores" in read ? ids.map((id) => read.scores.get(id)!.score) : read.problems.join("; ");
};

Deno.test("scores are matched by id, whatever their order", () => {
  assert.deepEqual(scoresOf(answer(entry("2", 0.25), entry("1", 1))), [1, 0.25]);
  assert.deepEqual(scoresOf(answer(entry(1, 0), entry(2, 0.5))), [0, 0.5]);
});

Deno.test("one object is found in other text", () => {
  const object = answer(entry("1", 0), entry("2", 1));
  const around = [
    `\n${object}\n`,
    "```json\n" + object + "\n```",
    `Here you are: ${object} I hope {that} helps.`,
    `<think>Maybe ${answer(entry("1", 1), entry("2", 0))}?</think>${object}`,
    `A set {1, 2} first. ${object}`,
    object.replace("because", 'a \\"quoted\\" } brace'),
  ];
  for (const text of around) assert.deepEqual(scoresOf(text), [0, 1], text);
});

const WRONG: [string, string][] = [
  ["", 'there is no JSON object with "scores"'],
  ["no idea", 'there is no JSON object with "scores"'],
  [answer(entry("1", 0), entry("2", 1)).slice(0, -4), 'there is no JSON object with "scores"'],
  [`${answer(entry("1", 0))} or ${answer(entry("1", 1))}`, 'there are 2 JSON objects with "scores", not one'],
  ['{"scores": 3}', '"scores" is no list'],
  [answer(entry("1", 0)), 'trajectory_id "2" has no usable entry'],
  [answer(entry("1", 0), entry("1", 1), entry("2", 1)), 'trajectory_id "1" has more than one entry'],
  [
    answer(entry("1", 0), entry("3\n\u202e", 1)),
    'entry 2 has the unknown trajectory_id "3⏎�"; trajectory_id "2" has no usable entry',
  ],
  [
    answer(entry("1", 1.5), entry("2", -0.01)),
    "entry 1 has the score 1.5, which is not between 0 and 1; entry 2 has the score -0.01, which is not between 0 and " +
    '1; trajectory_id "1", "2" has no usable entry',
  ],
  [
    answer(entry("1", "0.5"), entry("2", 1)),
    'entry 1 has a score that is no number; trajectory_id "1" has no usable entry',
  ],
  [
    answer(entry("1", 0), entry("2", 1, 7)),
    'entry 2 has an explanation that is no text; trajectory_id "2" has no usable entry',
  ],
  [
    answer(entry(null, 0), 3, entry("1", 0), entry("2", 0)),
    "entry 1 has no trajectory_id; entry 2 is no object",
  ],
  // JSON has neither NaN nor infinity; a number beyond its range is infinite.
  [
    answer(entry("1", 0), entry("2", 1)).replace('score":1', 'score":NaN'),
    'there is no JSON object with "scores"',
  ],
  [
    answer(entry("1", 0), entry("2", 1)).replace('score":1', 'score":1e999'),
    'entry 2 has the score Infinity, which is not between 0 and 1; trajectory_id "2" has no usable entry',
  ],
  ["x".repeat(MAX_ANSWER_CHARS + 1), `it is longer than ${MAX_ANSWER_CHARS} characters`],
];

for (const [text, problems] of WRONG) {
  Deno.test(`an answer is refused: ${problems.slice(0, 70)}`, () => assert.equal(scoresOf(text), problems));
}

Deno.test("MAX_PROBLEMS problems are named, with MAX_QUOTED_CHARS of what the judge wrote", () => {
  const many = answer(...Array.from({ length: 100 }, () => entry("x", 0)));
  assert.equal(String(scoresOf(many)).split("; ").length, MAX_PROBLEMS);
  const named = (chars: number) => String(scoresOf(answer(entry("x".repeat(chars), 0))));
  assert.ok(named(MAX_QUOTED_CHARS).includes(`"${"x".repeat(MAX_QUOTED_CHARS)}";`));
  assert.ok(named(MAX_QUOTED_CHARS + 1).includes(`"${"x".repeat(MAX_QUOTED_CHARS)}…";`));
});

Deno.test("an explanation is shortened, and may be missing", () => {
  const read = readAnswer(answer(entry("1", 0, "x".repeat(5000)), { trajectory_id: "2", score: 1 }), [
    "1",
    "2",
  ]);
  assert.ok("scores" in read);
  assert.equal(read.scores.get("1")!.explanation.length, MAX_EXPLANATION_CHARS);
  assert.equal(read.scores.get("2")!.explanation, "");
});

Deno.test("an answer is looked for at MAX_STARTS braces", () => {
  const behind = (braces: number) => "{ ".repeat(braces) + answer(entry("1", 0), entry("2", 1));
  assert.deepEqual(scoresOf(behind(MAX_STARTS - 1)), [0, 1]);
  assert.equal(scoresOf(behind(MAX_STARTS)), 'there is no JSON object with "scores"');
});

Deno.test("an answer of nothing but braces is read in bounded time", () => {
  assert.equal(scoresOf("{".repeat(MAX_ANSWER_CHARS)), 'there is no JSON object with "scores"');
});
