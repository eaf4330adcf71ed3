/** The list of a configuration's problems. */

import { ServiceError } from "../../core/errors.ts";
import { inline } from "../../core/text.ts";

/**
 * `syntax`: not TOML; `missing_field`; `unknown_field`; `invalid_value`: wrong type, wrong choice or in conflict with
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

/** A problem with its place in the configuration. */
export interface ConfigProblem {
  file: string;
  /** The line of the key, from 1, or of its section when the key is missing. 0 for an override. */
  line: number;
  /** The `key=value` of the command line that caused the problem, in place of a line. */
  override?: string;
  /** From 1; for syntax errors only. */
  column?: number;
  /** Dotted, such as `agent.mcp_servers.0.name`; empty for the entire file. */
  key: string;
  code: ConfigProblemCode;
  message: string;
  /** A suggestion, such as `did you mean "training.lr"?`. */
  hint?: string;
  /** Whether the message names the key; absent: only one about what is not built does. */
  names_key?: boolean;
}

/** Sorts by line, then key. */
export function sortProblems(problems: readonly ConfigProblem[]): ConfigProblem[] {
  return problems.toSorted((a, b) =>
    a.line - b.line || (a.column ?? 0) - (b.column ?? 0) || (a.key < b.key ? -1 : a.key > b.key ? 1 : 0)
  );
}

/** The most problems in a message. */
export const MAX_LISTED_PROBLEMS = 200;

/** The most characters in a line of a message. */
export const MAX_PROBLEM_CHARS = 2000;

/**
 * One line for each problem, up to {@link MAX_LISTED_PROBLEMS}: `<file>:<line>: <key>: <message>; <hint>`, with an
 * override in place of file and line.
 */
export function formatProblems(problems: readonly ConfigProblem[]): string {
  const more = problems.length - MAX_LISTED_PROBLEMS;
  const lines = problems.slice(0, MAX_LISTED_PROBLEMS).map((problem) => {
    const { override, column } = problem;
    const place = override ?? `${problem.file}:${problem.line}${column ? `:${column}` : ""}`;
    // An override contains its key too.
    const is_named = override?.split("=", 1)[0] === problem.key || problem.names_key ||
      problem.code === "not_built";
    const key = problem.key && !is_named ? `${problem.key}: ` : "";
    const line = inline(`${place}: ${key}${problem.message}${problem.hint ? `; ${problem.hint}` : ""}`);
    return line.length > MAX_PROBLEM_CHARS ? `${line.slice(0, MAX_PROBLEM_CHARS)}…` : line;
  });
  return [...lines, ...(more > 0 ? [`and ${more} more`] : [])].join("\n");
}

/** The error with all problems as `details.problems`. */
export function configError(path: string, problems: readonly ConfigProblem[]): ServiceError {
  const sorted = sortProblems(problems);
  const count = sorted.length === 1 ? "1 problem" : `${sorted.length} problems`;
  return new ServiceError("config_invalid", `Cannot load ${path}: ${count}\n${formatProblems(sorted)}`, {
    problems: sorted,
  });
}
