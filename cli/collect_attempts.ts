/** Attempts scenarios without a run, for `svc collect`. */

import { templateVariables } from "../config/check/own_section.ts";
import { realPathOf } from "../core/real_path.ts";
import { readScenarios } from "../data/scenario.ts";
import { trainsSampledTokens } from "../runs/algorithms/trained_tokens.ts";
import { prepareRun } from "../runs/plan/prepare.ts";
import { EVALUATION_WARNING_CODES } from "../runs/record/warning.ts";
import { loadModelParts } from "../runs/session/model_parts.ts";
import { openWorkerSession, type Session } from "../runs/session/session.ts";
import type { CollectedGroup, CollectOptions } from "./context.ts";
import { type ModelSession, openModel } from "./open_model.ts";

/** The update of the attempts' random numbers: those of a run count from 1. */
const BEFORE_UPDATES = 0;

/**
 * Attempts the scenarios of `[agent]` with the base model, or with `lora.init_adapter`, and grades them as training
 * does. Yields the groups in the order of the file.
 *
 * @throws {ServiceError} Problems of the data, the model or the machine, or the signal's reason.
 */
async function* collectAlone(
  { loaded, k, limit, signal, ended, warn, tell }: CollectOptions,
  openSession: (options: ModelSession) => Session,
): AsyncGenerator<CollectedGroup, void> {
  const prepared = await prepareRun(loaded, { updates: false });
  const { config } = prepared, agent = config.agent!;
  for (const warning of prepared.warnings) if (EVALUATION_WARNING_CODES.includes(warning.code)) warn(warning);
  const scenarios = (await readScenarios(agent.scenarios)).slice(0, limit ?? Infinity);
  const parts = await loadModelParts(config.model, templateVariables(config));
  const { init_adapter } = config.lora;
  const path = init_adapter === undefined ? null : await realPathOf(init_adapter);
  await using model = await openModel(prepared, path, { openSession, tell });
  signal.throwIfAborted();
  const groups = model.session.agent.groups({
    update: BEFORE_UPDATES,
    scenarios,
    group_size: k,
    concurrent_rollouts: agent.concurrent_rollouts,
    sampling: { domain: "train", seed: config.run.seed, temperature: agent.temperature },
    adapter: model.adapter,
  }, signal);
  const total = scenarios.length * k;
  ended({ done: 0, total });
  for await (const item of groups) {
    if (typeof item === "number") ended({ done: item, total });
    else {
      yield {
        scenario: scenarios[item.group]!,
        group: item,
        trainsSampled: (member, row) => trainsSampledTokens(member, row, parts),
      };
    }
  }
}

/** Runs {@link collectAlone} in workers. */
export function collectInWorkers(
  options: CollectOptions,
  entry_url: string,
): AsyncGenerator<CollectedGroup, void> {
  return collectAlone(options, (session) => openWorkerSession({ ...session, files: [], entry_url }));
}
