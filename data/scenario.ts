/** Scenarios: the tasks that a model attempts, one JSON object a line. */

import { z } from "zod";
import { describeIssue } from "../config/check/data_issues.ts";
import { ServiceError } from "../core/errors.ts";
import { parseObject } from "./jsonl.ts";
import { linesInvalid, MAX_REPORTED_PROBLEMS, readRows } from "./problems.ts";

/** A task's settings for the sandbox environment. */
export interface ScenarioEnv {
  /** Relative path → content. */
  files: Record<string, string>;
  /** Shell commands, run in order by `sh -c` before the task. */
  setup: string[];
  verify: ScenarioVerify | null;
  /** A command whose output the judge sees instead of the transcript. */
  summary: string[] | null;
  /** One of the environment's `scenario_toolsets`; null is the default toolset. */
  toolset: string | null;
}

export interface ScenarioVerify {
  /** A command as a list of arguments, run in the workspace; exit status 0 is success. */
  command: string[];
  /** Above 0: an attempt passes when its total reward is above 0. */
  reward_on_success: number;
  /** Globs of files to restore before verification; null is the default rule. */
  protect: string[] | null;
}

/** One task of a scenario file; fields that the line leaves out are null. */
export interface Scenario {
  id: string;
  user: string;
  system: string | null;
  rubric: string | null;
  env: ScenarioEnv | null;
  /** All of `metadata`, as an http environment and a reward command receive it. */
  metadata: Record<string, unknown>;
  /** The line number in the file, from 1. */
  line: number;
}

/** Checks by spelling alone that a path lies inside the workspace; the environment checks links. */
function isWorkspacePath(path: string): boolean {
  return path !== "" && !path.startsWith("/") && !path.includes("\0") &&
    !path.split("/").some((part) => part === "" || part === "." || part === "..");
}

const workspacePath = z.string().refine(isWorkspacePath, {
  error: "must be a relative path inside the workspace, without '.', '..' or empty parts",
});
const command = z.array(z.string()).min(1);

const envSchema = z.strictObject({
  files: z.record(workspacePath, z.string()).default({}),
  setup: z.array(z.string()).default([]),
  verify: z.strictObject({
    command,
    reward_on_success: z.number().positive().default(1),
    protect: z.array(z.string().min(1)).nullable().default(null),
  }).nullable().default(null),
  summary: command.nullable().default(null),
  toolset: z.string().min(1).nullable().default(null),
});

const scenarioSchema = z.strictObject({
  id: z.string().min(1),
  user: z.string(),
  system: z.string().nullable().default(null),
  metadata: z.looseObject({ env: envSchema.optional(), rubric: z.string().optional() }).default({}),
});

/**
 * Reads a scenario file. Every line is an object with `id`, `user` and optionally `system` and `metadata`.
 *
 * @throws {ServiceError} `path_not_found`; `data_invalid` with the first {@link MAX_REPORTED_PROBLEMS} problems, each
 * with file and line (`details.problems`): an invalid line, an unknown field, a repeated id.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const path = await Deno.makeTempFile({ suffix: ".jsonl" });
 * await Deno.writeTextFile(path, '{"id": "sum-1", "user": "Write the sum of 17 and 25 to sum.txt."}\n');
 * const [scenario] = await readScenarios(path);
 * assert.equal(scenario!.id, "sum-1");
 * await Deno.remove(path);
 * ```
 */
export async function readScenarios(path: string): Promise<Scenario[]> {
  const parse = scenarioParser();
  return await readRows(path, {}, (line) => {
    return parse(parseObject(path, line), { path, line: line.line });
  });
}

/** Parses the objects of a file's lines in order; like {@link parseScenario}, and ids are unique. */
export function scenarioParser(): typeof parseScenario {
  const line_of = new Map<string, number>();
  return (value, place) => {
    const scenario = parseScenario(value, place);
    const first = line_of.get(scenario.id);
    if (first === undefined) {
      line_of.set(scenario.id, place.line);
      return scenario;
    }
    const { path, line } = place;
    const message = `Cannot read ${path}:${line}: the id ${
      JSON.stringify(scenario.id)
    } is that of line ${first}`;
    throw new ServiceError("data_invalid", message, place);
  };
}

/** Parses one line's object as a scenario. @throws {ServiceError} `data_invalid`, naming each wrong field. */
export function parseScenario(
  value: Record<string, unknown>,
  place: { path: string; line: number },
): Scenario {
  const parsed = scenarioSchema.safeParse(value);
  if (!parsed.success) {
    const reasons = parsed.error.issues.map((issue) => describeIssue(issue, value));
    const message = `Cannot read ${place.path}:${place.line}: ${reasons.join("; ")}`;
    throw new ServiceError("data_invalid", message, place);
  }
  const { id, user, system, metadata } = parsed.data;
  return {
    id,
    user,
    system,
    rubric: metadata.rubric ?? null,
    env: metadata.env ?? null,
    metadata: (value.metadata ?? {}) as Record<string, unknown>,
    line: place.line,
  };
}

/**
 * Refuses held-out data that cannot be verified, because evaluation reports the environment's reward.
 *
 * @param adviceFor What lets the environment tell success from failure on a scenario; null: it can already.
 * @throws {ServiceError} `data_invalid`, naming the lines.
 */
export function checkVerifiable(
  path: string,
  scenarios: readonly Scenario[],
  adviceFor: (scenario: Scenario) => string | null,
): void {
  const problems = scenarios.flatMap((scenario) => {
    const { id, line } = scenario, advice = adviceFor(scenario);
    if (advice === null) return [];
    const message =
      `Cannot evaluate on ${path}:${line}: nothing can verify scenario ${JSON.stringify(id)}; ` +
      `${advice}, or leave the scenario out`;
    return [{ line, message }];
  });
  if (problems.length > 0) throw linesInvalid(path, problems.slice(0, MAX_REPORTED_PROBLEMS));
}
