/** Scenarios: the tasks that a model is tried on, one JSON object a line. */

/** What a sandbox environment needs to know of a task. */
export interface ScenarioEnv {
  /** Relative path → content. */
  files: Record<string, string>;
  /** Shell lines, run in order by `sh -c` before the task. */
  setup: string[];
  verify: ScenarioVerify | null;
  /** A command whose output the judge sees instead of the transcript. */
  summary: string[] | null;
  /** One of the environment's `scenario_toolsets`; null: its default. */
  toolset: string | null;
}

export interface ScenarioVerify {
  /** An argument list, run in the workspace; exit code 0 is success. */
  command: string[];
  reward_on_success: number;
  /** Globs restored before verification; null: the default rule. */
  protect: string[] | null;
}

export interface Scenario {
  id: string;
  user: string;
  system: string | null;
  rubric: string | null;
  env: ScenarioEnv | null;
  /** The whole `metadata` object, as an http environment and a reward command see it. */
  metadata: Record<string, unknown>;
  /** Its line in the file, from 1. */
  line: number;
}
