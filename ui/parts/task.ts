/** What an attempt at a scenario is checked by. */

import type { TrajectoryTask } from "../../api/types.ts";
import { valueAt } from "./values.ts";

const isTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((item) => typeof item === "string");

/** Arguments that mean the same to a shell. */
const WORD = /^[\w./:=@%+,-]+$/;

/** `python3 -I check.py`: a command in a line, and each argument that is more than a word in one of its own. */
function commandLines(command: readonly string[]): string {
  const lines: string[] = [];
  let was_word = false;
  for (const argument of command) {
    const is_word = WORD.test(argument);
    lines.push(is_word && was_word ? `${lines.pop()} ${argument}` : argument);
    was_word = is_word;
  }
  return lines.join("\n");
}

const lines = (texts: readonly string[]) => texts.join("\n");

/** Where the metadata of a scenario says how an attempt is graded, and how lists there are written. */
const PLACES: readonly (readonly [name: string, key: string, join: (texts: readonly string[]) => string])[] =
  [
    ["Verify command", "env.verify.command", commandLines],
    ["Reward on success", "env.verify.reward_on_success", lines],
    ["Protected files", "env.verify.protect", lines],
    ["Summary command, for a judge", "env.summary", commandLines],
    ["Rubric", "rubric", lines],
  ];

/** What the scenario says about the grade of an attempt, by name; empty for one that says nothing. */
export function checksOf({ metadata }: Pick<TrajectoryTask, "metadata">): [name: string, text: string][] {
  return PLACES.flatMap(([name, key, join]) => {
    const value = valueAt(metadata, key);
    if (value === undefined || value === null) return [];
    const text = typeof value === "string" ? value : isTexts(value) ? join(value) : JSON.stringify(value);
    return [[name, text]];
  });
}
