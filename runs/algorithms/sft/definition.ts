/** `algorithm = "sft"` as an entry of the registry. */

import { POLICY } from "../algorithm.ts";
import { atKey } from "../at_key.ts";
import type { AlgorithmDefinition } from "../definition.ts";
import { mostTargets } from "../epochs.ts";
import { measureRows } from "../measured_update.ts";
import { truncationWarnings } from "../rendered_rows.ts";
import { OBJECTIVE, Sft, stepsOf } from "./sft.ts";
import { readSftRows, traceRows } from "./sft_rows.ts";

export const sft: AlgorithmDefinition = {
  objective: OBJECTIVE,
  curve: "loss",
  step_size_keys: ["training.lr"],
  rows: traceRows,
  sequences: () => null,
  training: (config) => ({
    targets: mostTargets(config, config.training.ctx),
    divergence: false,
    keeps_state: false,
    adapters: 0,
  }),
  adapters: () => [],
  measureUpdate: (_, measurement) => measureRows(measurement),
  async readData({ sft, evaluation, training: { ctx } }, { renderer, variables }) {
    const { data: path, train_on } = sft!;
    const options = { renderer, train_on, variables, ctx };
    const data = await readSftRows(path, options);
    const heldout = evaluation
      ? await atKey(
        "evaluation.data",
        readSftRows(evaluation.data, { ...options, max_rows: evaluation.max_examples }),
      )
      : null;
    return {
      warnings: [
        ...truncationWarnings(data, "[sft]"),
        ...truncationWarnings(heldout, "[evaluation]"),
      ],
      schedule: (config) => stepsOf(config, data).schedule(data.sequences.map(({ tokens }) => tokens.length)),
      createAlgorithm: (config, { session: { engine }, clock }) =>
        new Sft({ config, engine, adapter: POLICY, clock, data, heldout }),
    };
  },
};
