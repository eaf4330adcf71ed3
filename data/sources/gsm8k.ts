/** GSM8K: word problems with solutions (github.com/openai/grade-school-math). */

import { z } from "zod";
import type { DatasetSource } from "./source.ts";

/** What stands before the result at the end of a solution. */
const RESULT_MARK = "#### ";

const problemSchema = z.strictObject({
  question: z.string().min(1),
  answer: z.string().includes(RESULT_MARK),
});

type Problem = z.output<typeof problemSchema>;

/** The result of a solution, without separators of thousands: `1,319` is `1319`. */
function resultOf(solution: string): string {
  return solution.slice(solution.lastIndexOf(RESULT_MARK) + RESULT_MARK.length).trim().replaceAll(",", "");
}

export const GSM8K: DatasetSource<Problem[]> = {
  name: "GSM8K",
  form: 'JSONL of {"question", "answer"}, whose answers end in "#### <result>"',
  read(content) {
    if (!("lines" in content)) return null;
    const parsed = z.array(problemSchema).min(1).safeParse(content.lines);
    return parsed.data ?? null;
  },
  splits: () => [],
  rows: {
    scenarios: (problems) =>
      problems.map(({ question, answer }, i) => ({
        id: `gsm8k-${i + 1}`,
        user: question,
        metadata: { answer: resultOf(answer), solution: answer },
      })),
    sft: (problems) =>
      problems.map(({ question, answer }) => ({
        messages: [{ role: "user", content: question }, { role: "assistant", content: answer }],
      })),
  },
};
