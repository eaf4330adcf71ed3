import assert from "node:assert/strict";
import { checkRunConfig, MAX_CONFIG_BYTES } from "../check/load.ts";
import { type ConfigProblem, formatProblems, MAX_LISTED_PROBLEMS, MAX_PROBLEM_CHARS } from "./problems.ts";
import { MAX_TOML_DEPTH, MAX_TOML_VALUES, parseToml } from "./toml_tree.ts";

const dotted = (parts: number) => Array(parts).fill("a").join(".");
const lists = (depth: number) => `x = ${"[".repeat(depth)}${"]".repeat(depth)}`;
const tables = (depth: number) => `x = ${"{ a = ".repeat(depth)}1${" }".repeat(depth)}`;

/** The position of the error; null when the text is accepted. */
function refusal(text: string): [line: number, message: string] | null {
  const parsed = parseToml(text);
  return "message" in parsed ? [parsed.line, parsed.message] : null;
}

Deno.test("values may be nested up to a limit, in every notation", () => {
  const message = `is nested more than ${MAX_TOML_DEPTH} levels deep`;
  // The outermost table is the file; the innermost value is a number or an empty list.
  const written = [
    (depth: number) => lists(depth - 1),
    (depth: number) => `${dotted(depth - 1)} = 1`,
    (depth: number) => `[${dotted(depth - 2)}]\na = 1`,
    (depth: number) => `[[${dotted((depth - 2) / 2)}]]\n`,
  ];
  for (const [i, write] of written.entries()) {
    assert.equal(refusal(write(MAX_TOML_DEPTH)), null, `form ${i}`);
    assert.deepEqual(refusal(`\n${write(2 * MAX_TOML_DEPTH + 4)}`), [2, message], `form ${i}`);
  }
  assert.equal(refusal(`${dotted(MAX_TOML_DEPTH)} = 1`), null);
  assert.deepEqual(refusal(`${dotted(MAX_TOML_DEPTH + 1)} = 1`), [1, message]);
});

Deno.test("nesting as deep as a file is long is refused without recursion", () => {
  for (const text of [lists(100_000), tables(100_000), "x = " + "[".repeat(MAX_CONFIG_BYTES - 4)]) {
    assert.match(refusal(text)![1], /levels deep|is not TOML/);
  }
  for (const text of [`${dotted(50_000)} = 1`, `[${dotted(50_000)}]\nx = 1`]) {
    const { config, problems } = checkRunConfig(text, { path: "c.toml" });
    assert.deepEqual([config, problems.map(({ line, code }) => [line, code])], [null, [[1, "syntax"]]]);
  }
});

Deno.test("a file has a limited number of values", () => {
  // The table of the file and the list are two of the values.
  const list = (values: number) => `x = [${"1,".repeat(values - 2)}]`;
  assert.equal(refusal(list(MAX_TOML_VALUES)), null);
  assert.match(refusal(list(MAX_TOML_VALUES + 1))![1], /the file has more than 10000 values/);
  assert.match(refusal("[[a]]\n".repeat(100_000))![1], /more than 10000 values/);
});

Deno.test("a message lists a limited number of problems of limited length, each on one line", () => {
  const problem: ConfigProblem = { file: "f", line: 1, key: "k", code: "syntax", message: "m" };
  const listed = (count: number) => formatProblems(Array(count).fill(problem)).split("\n");
  assert.equal(listed(MAX_LISTED_PROBLEMS).length, MAX_LISTED_PROBLEMS);
  const more = listed(MAX_LISTED_PROBLEMS + 2);
  assert.deepEqual([more.length, more.at(-1)], [MAX_LISTED_PROBLEMS + 1, "and 2 more"]);
  const line = (length: number) =>
    formatProblems([{ ...problem, message: "m".repeat(length - "f:1: k: ".length) }]);
  assert.equal(line(MAX_PROBLEM_CHARS).length, MAX_PROBLEM_CHARS);
  assert.equal(line(MAX_PROBLEM_CHARS + 1), `${line(MAX_PROBLEM_CHARS)}…`);
  const forged = formatProblems([{ ...problem, key: "a\nsvc: run completed\x1b[2J" }]);
  assert.equal(forged, "f:1: a⏎svc: run completed�[2J: m");
});

Deno.test("a layer is named once in lora.targets", () => {
  const text = (targets: string) =>
    `run.algorithm = "sft"\nmodel.path = "m"\nsft.data = "d"\n[lora]\ntargets = ${targets}\n`;
  const problems = (targets: string) =>
    checkRunConfig(text(targets), { path: "c.toml" }).problems.map((
      { line, key, message },
    ) => [line, key, message]);
  assert.deepEqual(problems('["q_proj", "v_proj", "q_proj"]'), [[
    5,
    "lora.targets.2",
    'names "q_proj" again',
  ]]);
  assert.deepEqual(problems('["v_proj", "q_proj"]'), []);
});
