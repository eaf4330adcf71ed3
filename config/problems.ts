/** What is wrong with a configuration, as a list. */

import { ServiceError } from "../core/errors.ts";
import { inline } from "../core/text.ts";

/**
 * `syntax`: not TOML; `missing_field`; `unknown_field`; `invalid_value`: wrong type, wrong choice or wrong beside
 * another key; `out_of_range`; `path_not_found`; `not_built`: known, but not in this build.
 */
export type ConfigProblemCode =
  | "syntax"
  | "missing_field"
  | "unknown_field"
  | "invalid_value"
  | "out_of_range"
  | "path_not_found"
  | "not_built";

export interface ConfigProblem {
  file: string;
  /** From 1; where the key stands, or where its section begins when it is missing. 0 where an override is to blame. */
  line: number;
  /** The `key=value` of the command line that is to blame in place of a line. */
  override?: string;
  /** From 1; of syntax errors only. */
  column?: number;
  /** Dotted, such as `agent.mcp_servers.0.name`; empty for the whole file. */
  key: string;
  code: ConfigProblemCode;
  message: string;
  /** A short answer, such as `did you mean "training.lr"?`. */
  hint?: string;
}

/** Sorts by line, then key. */
export function sortProblems(problems: readonly ConfigProblem[]): ConfigProblem[] {
  return problems.toSorted((a, b) =>
    a.line - b.line || (a.column ?? 0) - (b.column ?? 0) || (a.key < b.key ? -1 : a.key > b.key ? 1 : 0)
  );
}

/** Most problems that a message lists. */
export const MAX_LISTED_PROBLEMS = 200;

/** Most characters of one of its lines. */
export const MAX_PROBLEM_CHARS = 2000;

/**
 * One line a problem: `<file>:<line>: <key>: <message>; <hint>`, or the override in place of file and line, up to
 * {@link MAX_LISTED_PROBLEMS}.
 */
export function formatProblems(problems: readonly ConfigProblem[]): string {
  const more = problems.length - MAX_LISTED_PROBLEMS;
  const lines = problems.slice(0, MAX_LISTED_PROBLEMS).map((problem) => {
    const { override, column } = problem;
    const place = override ?? `${problem.file}:${problem.line}${column ? `:${column}` : ""}`;
    // An override names its own key.
    const is_named = override?.split("=", 1)[0] === problem.key || problem.message.startsWith("Cannot ");
    const key = problem.key && !is_named ? `${problem.key}: ` : "";
    const line = inline(`${place}: ${key}${problem.message}${problem.hint ? `; ${problem.hint}` : ""}`);
    return line.length > MAX_PROBLEM_CHARS ? `${line.slice(0, MAX_PROBLEM_CHARS)}…` : line;
  });
  return [...lines, ...(more > 0 ? [`and ${more} more`] : [])].join("\n");
}

/** The error that carries every problem as `details.problems`. */
export function configError(path: string, problems: readonly ConfigProblem[]): ServiceError {
  const sorted = sortProblems(problems);
  const count = sorted.length === 1 ? "1 problem" : `${sorted.length} problems`;
  return new ServiceError("config_invalid", `Cannot load ${path}: ${count}\n${formatProblems(sorted)}`, {
    problems: sorted,
  });
}
