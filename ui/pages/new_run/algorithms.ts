/** What each algorithm's recipe has. */

import type { Dataset, Recipe } from "../../../api/types.ts";

export type Algorithm = Recipe["recipe"];
/** A limit of a recipe's length. */
export type Budget = keyof NonNullable<Recipe["budget"]>;

interface AlgorithmParts {
  title: string;
  about: string;
  data: {
    /** The recipe's field with the data, and the kind of dataset that it takes. */
    field: "data" | "scenarios";
    kind: NonNullable<Dataset["kind"]>;
    title: string;
    /** The key of the configuration that the field sets. */
    key: string;
  };
  /** The section of the configuration that only this algorithm has. */
  section: string;
  /** The limits of its length, with the keys that they set. */
  budget: Readonly<Partial<Record<Budget, string>>>;
  /** Whether attempts are graded, so that the recipe has an objective. */
  has_objective: boolean;
  /** The settings that people change most, by dotted key. */
  settings: readonly string[];
}

const DATA_BUDGET = {
  epochs: "training.epochs",
  updates: "training.updates",
  minutes: "training.max_minutes",
};

const SHARED_SETTINGS = ["training.lr", "training.ctx", "lora.rank"];

export const ALGORITHMS: Readonly<Record<Algorithm, AlgorithmParts>> = {
  sft: {
    title: "Examples",
    about: "The model learns to answer as in example conversations (sft).",
    data: { field: "data", kind: "sft", title: "Examples", key: "sft.data" },
    section: "sft",
    budget: DATA_BUDGET,
    has_objective: false,
    settings: ["sft.train_on", ...SHARED_SETTINGS, "training.batch_tokens"],
  },
  preference: {
    title: "Pairs",
    about: "The model learns which of two answers is better (preference).",
    data: { field: "data", kind: "preference", title: "Pairs", key: "preference.data" },
    section: "preference",
    budget: DATA_BUDGET,
    has_objective: false,
    settings: ["preference.loss", "preference.beta", ...SHARED_SETTINGS, "training.batch_tokens"],
  },
  agent_grpo: {
    title: "Rewards",
    about: "The model attempts tasks with tools, and learns from what graded them (agent_grpo).",
    data: { field: "scenarios", kind: "scenarios", title: "Scenarios", key: "agent.scenarios" },
    section: "agent",
    budget: { updates: "agent.updates" },
    has_objective: true,
    settings: [
      "agent.scenarios_per_update",
      "agent.group_size",
      "agent.max_turns",
      "agent.max_new_tokens_per_turn",
      ...SHARED_SETTINGS,
    ],
  },
};

const SECTIONS = Object.values(ALGORITHMS).map(({ section }) => section);

/** Whether a key is in a section that the algorithm has. */
export function hasKey(algorithm: Algorithm, key: string): boolean {
  const [section = ""] = key.split(".");
  return section === ALGORITHMS[algorithm].section || !SECTIONS.includes(section);
}
