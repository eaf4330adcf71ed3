/** Results of tau-bench: attempts at tasks by a model with tools (github.com/sierra-research/tau-bench). */

import { z } from "zod";
import { messagesField } from "../chat_fields.ts";
import type { DatasetSource } from "./source.ts";

const attemptSchema = z.looseObject({
  task_id: z.int(),
  trial: z.int(),
  reward: z.number(),
  traj: messagesField,
});

type Attempt = z.output<typeof attemptSchema>;

/** The attempts of each task in the order of their trials; tasks in the order of their numbers. */
function byTask(attempts: readonly Attempt[]): [task: number, attempts: Attempt[]][] {
  const tasks = [...Map.groupBy(attempts, ({ task_id }) => task_id)].sort(([a], [b]) => a - b);
  return tasks.map(([task, own]) => [task, own.toSorted((a, b) => a.trial - b.trial)]);
}

export const TAU_BENCH: DatasetSource<Attempt[]> = {
  name: "tau-bench",
  form: "a JSON list of {task_id, trial, reward, traj}",
  read(content) {
    if (!("document" in content)) return null;
    return z.array(attemptSchema).min(1).safeParse(content.document).data ?? null;
  },
  splits: () => [],
  rows: {
    // The file has no definitions of the tools, so a row of `sft` has none either.
    sft: (attempts) =>
      byTask(attempts).flatMap(([, own]) => own).filter(({ reward }) => reward > 0)
        .map(({ traj, task_id, trial, reward }) => ({ messages: traj, task_id, trial, reward })),
    fixtures: (attempts) =>
      byTask(attempts).map(([task, own]) => ({
        id: `tau-bench-${task}`,
        trajectories: own.map(({ traj, reward }) => ({ messages: traj, label: reward })),
      })),
  },
};
