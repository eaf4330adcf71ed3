/** `algorithm = "sft"` as an entry of the registry. */

import type { PlanWarning } from "../../record/warning.ts";
import { POLICY } from "../algorithm.ts";
import type { AlgorithmDefinition } from "../definition.ts";
import { mostTargets, OBJECTIVE, scheduleOf, Sft } from "./sft.ts";
import { readSftRows, type SftData } from "./sft_rows.ts";

export const sft: AlgorithmDefinition = {
  name: "sft",
  objective: OBJECTIVE,
  curve: "loss",
  step_size_keys: ["training.lr"],
  trainingData: (config) => ({ key: "sft.data", path: config.sft!.data }),
  sequences: () => null,
  training: (config) => ({ targets: mostTargets(config), divergence: false, adapters: 0 }),
  adapters: () => [],
  async readData({ sft, evaluation, training: { ctx } }, { renderer, variables }) {
    const { data: path, train_on } = sft!;
    const options = { renderer, train_on, variables, ctx };
    const max_rows = evaluation?.max_examples;
    const data = await readSftRows(path, options);
    const heldout = evaluation
      ? await readSftRows(evaluation.data, { ...options, ...(max_rows !== undefined && { max_rows }) })
      : null;
    return {
      warnings: [
        ...truncationWarnings(data, "rows of [sft]"),
        ...truncationWarnings(heldout, "rows of [evaluation]"),
      ],
      schedule: (config) => scheduleOf(config, data.sequences),
      createAlgorithm: (config, { session: { engine }, clock }) =>
        new Sft({ config, engine, adapter: POLICY, clock, data, heldout }),
    };
  },
};

function truncationWarnings(data: SftData | null, rows: string): PlanWarning[] {
  if (!data || data.truncated.length === 0) return [];
  const { truncated } = data;
  const message =
    `${truncated.length} of ${data.rows} ${rows} are longer than training.ctx and were cut, the first in ` +
    `line ${truncated[0]}`;
  return [{ code: "rows_truncated", field: "training.ctx", message }];
}
