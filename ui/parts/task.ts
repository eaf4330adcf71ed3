/** What an attempt at a scenario is checked by. */

import type { TrajectoryTask } from "../../api/types.ts";
import { valueAt } from "./values.ts";

/** An argument as a shell takes it. */
const quoted = (argument: string) =>
  /^[\w./:=@%+,-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", String.raw`'\''`)}'`;

const isTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((item) => typeof item === "string");

/** `python3 -I 'my check.py'`: a command as a shell takes it. */
const commandLine = (command: readonly string[]) => command.map(quoted).join(" ");

const lines = (texts: readonly string[]) => texts.join("\n");

/** Where the metadata of a scenario says how an attempt is graded, and how lists there are written. */
const PLACES: readonly (readonly [name: string, key: string, join: (texts: readonly string[]) => string])[] =
  [
    ["Verify command", "env.verify.command", commandLine],
    ["Reward on success", "env.verify.reward_on_success", lines],
    ["Protected files", "env.verify.protect", lines],
    ["Summary command, for a judge", "env.summary", commandLine],
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
