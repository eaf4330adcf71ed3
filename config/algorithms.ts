/** What the keys of a configuration mean to each algorithm. A new algorithm has an entry here. */

/** An entry of {@link ALGORITHM_KEYS}. */
export interface AlgorithmKeys {
  /** The section with its data. A file may have several and serve several runs. */
  section: string;
  data: {
    /** The key of its training data. */
    key: string;
    /** The field of a recipe that names it. */
    recipe_field: "data" | "scenarios";
    /** Its rows in words. */
    rows: string;
    /** The kind of its rows, as datasets name it. */
    kind: string;
    /** Fields that tell a row of this kind: all of one list. */
    fields: readonly (readonly string[])[];
  };
  /** The key that limits its updates. */
  updates_key: string;
  /** Whether it learns from attempts at tasks, which an objective grades, and not from rows. */
  has_rollouts: boolean;
  /** The default of `training.lr`. */
  learning_rate: number;
  /** The least micro-batch: a number of full-length sequences, and how a message names their length. */
  micro_batch: { sequences: number; length: string };
  /** Keys without a meaning: the value that they may have all the same, and what to do instead of another one. */
  unused: Readonly<Record<string, { value?: number | boolean; hint: string }>>;
  /** Keys that may have one value only, with the reason; a hint when another key is often meant. */
  fixed: Readonly<Record<string, { value: number; message: string; hint?: string }>>;
  /** Values of a starter configuration for keys without a default. */
  starter: Readonly<Record<string, unknown>>;
  /** Other keys and sections that a starter configuration leaves out. */
  not_in_starter: readonly string[];
}

const HINT = "leave it out: held-out rows are scored, without attempts";

/** The entries that algorithms which learn from rows have in common. */
const ROWS = {
  updates_key: "training.updates",
  has_rollouts: false,
  fixed: {},
  unused: {
    "evaluation.samples_per_scenario": { value: 1, hint: HINT },
    "evaluation.temperature": { value: 0, hint: HINT },
    "run.record": { value: false, hint: "leave it out: there are no answers of tools to record" },
  },
  not_in_starter: ["observe", "evaluation.seed"],
} as const;

const ONE_SEQUENCE = { sequences: 1, length: "training.ctx" } as const;

/** By the value of `run.algorithm`; all of the specification, built or not. */
export const ALGORITHM_KEYS = {
  agent_grpo: {
    section: "agent",
    data: {
      key: "agent.scenarios",
      recipe_field: "scenarios",
      rows: "scenarios",
      kind: "scenarios",
      fields: [["id", "user"]],
    },
    updates_key: "agent.updates",
    has_rollouts: true,
    learning_rate: 2e-5,
    micro_batch: ONE_SEQUENCE,
    fixed: {
      "lora.dropout": {
        value: 0,
        message: "must be 0 for agent_grpo: rescored log-probabilities would lack the mask",
      },
      "agent.temperature": {
        value: 1,
        message: "must be 1 in training: ratios belong to the distribution that was sampled",
        hint: 'did you mean "evaluation.temperature"?',
      },
    },
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
    data: {
      key: "sft.data",
      recipe_field: "data",
      rows: "traces",
      kind: "sft",
      fields: [["messages"], ["prompt", "completion"], ["text"]],
    },
    learning_rate: 2e-4,
    micro_batch: ONE_SEQUENCE,
    starter: { "sft.data": "traces.jsonl" },
  },
  preference: {
    ...ROWS,
    section: "preference",
    data: {
      key: "preference.data",
      recipe_field: "data",
      rows: "pairs",
      kind: "preference",
      fields: [["chosen", "rejected"]],
    },
    learning_rate: 5e-6,
    micro_batch: { sequences: 2, length: "what both sequences of a pair take, twice training.ctx" },
    starter: { "preference.data": "pairs.jsonl" },
  },
} as const satisfies Record<string, AlgorithmKeys>;

/** A value of `run.algorithm`. */
export type AlgorithmName = keyof typeof ALGORITHM_KEYS;

/** The names of {@link ALGORITHM_KEYS}. */
export const ALGORITHMS = Object.keys(ALGORITHM_KEYS) as AlgorithmName[];

/** The algorithm of a starter configuration when none is asked for. */
export const STARTER_ALGORITHM: AlgorithmName = "agent_grpo";

/** A section that an algorithm has for its own. */
export type AlgorithmSection = typeof ALGORITHM_KEYS[AlgorithmName]["section"];

/** The kind of a row of data. */
export type DataKind = typeof ALGORITHM_KEYS[AlgorithmName]["data"]["kind"];

/** The kinds of data, each once, with the fields that tell a row of them. */
export const DATA_KINDS: readonly { kind: DataKind; fields: AlgorithmKeys["data"]["fields"] }[] = [
  ...new Map(Object.values(ALGORITHM_KEYS).map(({ data: { kind, fields } }) => [kind, { kind, fields }]))
    .values(),
];

/** The keys whose value is a file of data, for training or held out. */
export const DATA_KEYS: readonly string[] = [
  ...Object.values(ALGORITHM_KEYS).map(({ data }) => data.key),
  "evaluation.data",
];

/** The entry of an algorithm. */
export function algorithmKeys(algorithm: AlgorithmName): AlgorithmKeys & { section: AlgorithmSection } {
  return ALGORITHM_KEYS[algorithm];
}

/** Whether a key has no meaning for an algorithm. */
export function isUnused(algorithm: AlgorithmName, key: string): boolean {
  return Object.hasOwn(ALGORITHM_KEYS[algorithm].unused, key);
}

/** The names of the algorithms for which something holds, in words: `sft and preference`. */
export function algorithmsText(holds: (keys: AlgorithmKeys, name: AlgorithmName) => boolean): string {
  const names = ALGORITHMS.filter((name) => holds(algorithmKeys(name), name));
  return names.join(", ").replace(/, (?=[^,]*$)/, " and ");
}

/** The algorithms for which a key has a meaning, in words. */
export function usersText(key: string): string {
  return algorithmsText((_, name) => !isUnused(name, key));
}
