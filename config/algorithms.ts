/** What the keys of a configuration mean to each algorithm. A new algorithm has an entry here. */

import type { AlgorithmName } from "./run.ts";

/** An entry of {@link ALGORITHM_KEYS}. */
export interface AlgorithmKeys {
  /** The section with its data. A file may have several and serve several runs. */
  section: "agent" | "sft" | "preference";
  /** The default of `training.lr`. */
  learning_rate: number;
  /** Full-length sequences that a micro-batch must hold at least. */
  sequences_together: number;
  /** Keys without a meaning: the value that they may have all the same, and what to do instead of another one. */
  unused: Readonly<Record<string, { value?: number; hint: string }>>;
  /** Values of a starter configuration for keys without a default. */
  starter: Readonly<Record<string, unknown>>;
  /** Other keys and sections that a starter configuration leaves out. */
  not_in_starter: readonly string[];
}

const hint = "leave it out: held-out rows are scored, without attempts";

/** What algorithms that learn from rows have in common. */
const ROWS = {
  unused: {
    "evaluation.samples_per_scenario": { value: 1, hint },
    "evaluation.temperature": { value: 0, hint },
  },
  not_in_starter: ["observe", "evaluation.seed"],
} as const;

/** All algorithms. */
export const ALGORITHM_KEYS = {
  agent_grpo: {
    section: "agent",
    learning_rate: 2e-5,
    sequences_together: 1,
    unused: {
      "training.epochs": { value: 1, hint: 'did you mean "agent.epochs_per_update"?' },
      "training.updates": { hint: 'did you mean "agent.updates"?' },
      "training.batch_tokens": {
        hint: "its steps are made of groups: set agent.scenarios_per_update and agent.group_size",
      },
      "training.max_minutes": { hint: "leave it out" },
    },
    starter: {
      "agent.scenarios": "scenarios.jsonl",
      "agent.updates": 20,
      "agent.environment.type": "local",
      "agent.environment.allow_unsandboxed": true,
      "agent.environment.scenario_toolsets": ["files"],
    },
    not_in_starter: [],
  },
  sft: {
    ...ROWS,
    section: "sft",
    learning_rate: 2e-4,
    sequences_together: 1,
    starter: { "sft.data": "traces.jsonl" },
  },
  // Both sequences of a pair stay together.
  preference: {
    ...ROWS,
    section: "preference",
    learning_rate: 5e-6,
    sequences_together: 2,
    starter: { "preference.data": "pairs.jsonl" },
  },
} as const satisfies Record<AlgorithmName, AlgorithmKeys>;

/** Whether a key has no meaning for an algorithm. */
export function isUnused(algorithm: AlgorithmName, key: string): boolean {
  return Object.hasOwn(ALGORITHM_KEYS[algorithm].unused, key);
}
