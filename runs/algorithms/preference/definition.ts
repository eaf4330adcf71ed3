/** `algorithm = "preference"` as an entry of the registry. */

import { needsReference } from "../../../core/preference_loss.ts";
import type { PlanWarning } from "../../record/warning.ts";
import { POLICY } from "../algorithm.ts";
import { atKey } from "../at_key.ts";
import type { AlgorithmDefinition } from "../definition.ts";
import { mostTargets } from "../epochs.ts";
import { measureRows } from "../measured_update.ts";
import { truncationWarnings } from "../rendered_rows.ts";
import { type PairData, pairRows, pairTokens, readPairRows } from "./pair_rows.ts";
import { OBJECTIVE, Preference, REFERENCE, stepsOf } from "./preference.ts";

export const preference: AlgorithmDefinition = {
  objective: OBJECTIVE,
  curve: "loss",
  step_size_keys: ["training.lr"],
  rows: pairRows,
  sequences: () => null,
  training: (config) => ({
    targets: mostTargets(config, config.training.micro_batch_tokens),
    divergence: false,
    keeps_state: false,
    adapters: preference.adapters(config, "updates").length,
  }),
  adapters({ preference, lora: { init_adapter: path } }) {
    if (path === undefined || !needsReference(preference!.loss)) return [];
    return [{ adapter: REFERENCE, source: { type: "file", path } }];
  },
  measureUpdate: (_, measurement) => measureRows(measurement),
  async readData({ preference, evaluation, training: { ctx, micro_batch_tokens } }, { renderer, variables }) {
    const options = { renderer, variables, ctx };
    const data = await readPairRows(preference!.data, { ...options, micro_batch_tokens });
    const heldout = evaluation
      ? await atKey(
        "evaluation.data",
        readPairRows(evaluation.data, { ...options, max_rows: evaluation.max_examples }),
      )
      : null;
    return {
      warnings: [...dataWarnings(data, "[preference]"), ...dataWarnings(heldout, "[evaluation]")],
      schedule: (config) => stepsOf(config, data).schedule(data.pairs.map(pairTokens)),
      createAlgorithm: (config, { session: { engine }, clock }) =>
        new Preference({ config, engine, adapter: POLICY, clock, data, heldout }),
    };
  },
};

function dataWarnings(data: PairData | null, section: "[preference]" | "[evaluation]"): PlanWarning[] {
  const warnings = truncationWarnings(data, section);
  if (!data || data.left_out.length === 0) return warnings;
  const { left_out, rows } = data;
  const message =
    `${left_out.length} of ${rows} rows of ${section} have a completion without a token inside ` +
    `training.ctx and are left out, the first in line ${left_out[0]}`;
  return [...warnings, { code: "rows_truncated", field: "training.ctx", message }];
}
