import assert from "node:assert/strict";
import { type JudgeModel, type JudgeQuestion, MAX_REPEATED_CHARS, RulerJudge } from "./ruler_judge.ts";
import { hostedForm } from "./ruler_request.ts";

/** A model that gives these answers, and what it was asked. */
function scriptedModel(answers: string[]): JudgeModel & { asked: JudgeQuestion[] } {
  const asked: JudgeQuestion[] = [];
  return {
    asked,
    ...{ identity: "m", deterministic: true, form: hostedForm(100_000), redact: (text) => text },
    start: () => Promise.resolve(),
    ask: (question) =>
      Promise.resolve({ text: answers[asked.push(question) - 1]!, is_cut_off: false, tokens: 1 }),
  };
}

Deno.test("the request for another answer repeats MAX_REPEATED_CHARS of the first", async () => {
  const scores = [{ trajectory_id: "1", explanation: "so", score: 1 }];
  for (const [length, is_whole] of [[MAX_REPEATED_CHARS, true], [MAX_REPEATED_CHARS + 1, false]] as const) {
    const said = "?".repeat(length), model = scriptedModel([said, JSON.stringify({ scores })]);
    const attempts = [{ messages: [{ role: "user", content: "Add." } as const], state: "5" }];
    const { signal } = new AbortController();
    await new RulerJudge({ model, cache: null }).judge(
      { rubric: null, tools: [], attempts },
      () => [0],
      signal,
    );
    const repeated = model.asked[1]!.messages.at(-2)!.content!;
    assert.ok(repeated.length <= MAX_REPEATED_CHARS);
    assert.equal(repeated === said, is_whole);
  }
});
