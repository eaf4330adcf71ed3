import { deepEqual, equal, match, rejects } from "node:assert/strict";
import { fixturePath, readFixtureJson, readFixtureLines } from "../../tests/fixture.ts";
import { withFolder } from "../../tests/folder.ts";
import { parseScenario } from "../scenario.ts";
import { traceOf } from "../trace.ts";
import { convertDataset } from "./registry.ts";

const place = { path: "rows.jsonl", line: 1 };
const GSM8K = "datasets/gsm8k-test-200.jsonl";
const TAU = "datasets/tau-bench-gpt-4o-airline-10.json";
const TAU2 = "datasets/tau2-bench-sft-v1-small-10.json";

Deno.test("GSM8K's problems are scenarios with their results, and chats", async () => {
  const path = await fixturePath(GSM8K), problems = await readFixtureLines(GSM8K);
  const { source, kind, rows } = await convertDataset(path);
  deepEqual([source, kind, rows.length], ["GSM8K", "scenarios", 200]);
  const scenarios = rows.map((row) => parseScenario(row, place));
  deepEqual(
    scenarios.map(({ user, metadata }) => ({ question: user, answer: metadata.solution })),
    problems,
  );
  // The first three solutions end in "#### 18", "#### 3" and "#### 70000"; the largest results have a comma.
  deepEqual(scenarios.slice(0, 3).map(({ metadata }) => metadata.answer), ["18", "3", "70000"]);
  for (const { metadata } of scenarios) match(String(metadata.answer), /^-?\d+(\.\d+)?$/);
  const chats = await convertDataset(path, { kind: "sft" });
  deepEqual(
    chats.rows.map((row) => {
      const { content } = traceOf(row, place);
      return "messages" in content ? content.messages.map(({ content }) => content) : null;
    }),
    problems.map(({ question, answer }) => [question, answer]),
  );
});

Deno.test("tau-bench's attempts are groups with rewards as labels, in the order of tasks and trials", async () => {
  const path = await fixturePath(TAU), attempts = await readFixtureJson(TAU);
  const { kind, rows } = await convertDataset(path, { kind: "fixtures" });
  equal(kind, "fixtures");
  deepEqual(rows.map(({ id }) => id), Array.from({ length: 10 }, (_, task) => `tau-bench-${task}`));
  for (const [task, { trajectories }] of rows.entries()) {
    const own = [0, 1, 2, 3].map((trial) =>
      // deno-lint-ignore no-explicit-any -- the published file
      attempts.find((attempt: any) => attempt.task_id === task && attempt.trial === trial)
    );
    deepEqual(trajectories, own.map(({ traj, reward }) => ({ messages: traj, label: reward })));
  }
});

Deno.test("tau-bench's successful attempts are training examples", async () => {
  const path = await fixturePath(TAU), { kind, rows } = await convertDataset(path);
  equal(kind, "sft");
  const groups = (await convertDataset(path, { kind: "fixtures" })).rows;
  const successful = groups.flatMap(({ trajectories }) =>
    (trajectories as { messages: unknown; label: number }[]).filter(({ label }) => label === 1)
  );
  deepEqual(
    rows.map((row) => {
      const { content } = traceOf(row, place);
      return "messages" in content && content.messages;
    }),
    successful.map(({ messages }) => messages),
  );
});

Deno.test("tau2-bench's chats keep their messages, tools and other fields", async () => {
  const path = await fixturePath(TAU2), { splits } = await readFixtureJson(TAU2);
  for (const split of ["train", "test"]) {
    const { rows } = await convertDataset(path, { split });
    deepEqual(rows, splits[split]);
    for (const [i, row] of rows.entries()) {
      const { content, tools } = traceOf(row, place);
      deepEqual("messages" in content && content.messages, splits[split][i].messages);
      deepEqual(tools, splits[split][i].tools);
    }
  }
  deepEqual(await convertDataset(path), await convertDataset(path, { split: "train" }));
});

Deno.test("a kind, a part or a form that there is not is refused with those that there are", async () => {
  const tau2 = await fixturePath(TAU2), tau = await fixturePath(TAU);
  await rejects(convertDataset(tau2, { kind: "fixtures" }), /tau2-bench gives no fixtures; it gives sft$/);
  await rejects(convertDataset(tau2, { split: "dev" }), /there is no part "dev"; it has train, test$/);
  await rejects(convertDataset(tau, { split: "dev" }), /there is no part "dev"; it has no parts$/);
  await withFolder(async (folder) => {
    const json = `${folder}/a.json`, lines = `${folder}/a.jsonl`;
    await Deno.writeTextFile(json, '[{"task_id": 1}]');
    await rejects(convertDataset(json), /none of the known forms: GSM8K \(JSONL of /);
    await Deno.writeTextFile(json, "[{");
    await rejects(convertDataset(json), /a\.json: not JSON \(/);
    await Deno.writeTextFile(lines, '{"question": "a", "answer": "#### 1"}\n{"question"\n');
    await rejects(convertDataset(lines), /a\.jsonl:2: not JSON \(/);
    await Deno.writeTextFile(lines, '{"question": "a", "answer": "1"}\n');
    await rejects(convertDataset(lines), /none of the known forms/);
    await rejects(convertDataset(`${folder}/b.json`), /b\.json: no such file$/);
  });
});
