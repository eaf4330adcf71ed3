/** All checks before a run starts: the model's header, the data, and whether it can be graded. */

import { resolve } from "node:path";
import type { AdapterShape, ResolvedConfig } from "../../config/check/derive.ts";
import type { LoadedConfig } from "../../config/check/load.ts";
import { templateVariables, trainingData } from "../../config/check/own_section.ts";
import { resolveLoaded } from "../../config/check/resolve.ts";
import type { Clock } from "../../core/clock.ts";
import { type CheckedFile, withCheckedFiles } from "../../core/regular_file.ts";
import { LORA_TARGETS } from "../../core/lora_targets.ts";
import { readAdapter } from "../../trainer/formats/adapter.ts";
import type { openGgufHeader } from "../../trainer/formats/gguf.ts";
import type { Algorithm } from "../algorithms/algorithm.ts";
import type { AlgorithmData, AlgorithmDefinition, ReadDataOptions } from "../algorithms/definition.ts";
import { algorithmOf } from "../algorithms/registry.ts";
import { clientFiles } from "../directory/client_files.ts";
import { type Identity, identityOf, inputFingerprints } from "../directory/config_identity.ts";
import { withRealPaths } from "../directory/places.ts";
import { MODEL_INPUTS } from "../directory/same_inputs.ts";
import type { RunWarning } from "../record/warning.ts";
import { loadModelParts, type ModelParts } from "../session/model_parts.ts";
import type { Session } from "../session/session.ts";
import { heldoutWarnings } from "./heldout_warnings.ts";
import { configWarnings } from "./warnings.ts";

/** A configuration that is ready to run, with all that was checked. */
export interface PreparedRun {
  config: ResolvedConfig;
  definition: AlgorithmDefinition;
  identity: Identity;
  /** Warnings to show when the run starts. */
  warnings: RunWarning[];
  /** The files that are opened only as they were checked; empty for a run of the command line. */
  files: readonly CheckedFile[];
  createAlgorithm(session: Session, clock: Clock): Algorithm;
}

export interface PrepareOptions {
  /** Whether a client of the server named the files: their paths must be real ones. Absent: false. */
  by_client?: boolean;
  /** The folder of the recordings that the run replays. Absent: none. */
  recordings?: string | undefined;
  /** Whether updates follow, which need enough rows; false for commands that only attempt. Absent: true. */
  updates?: boolean;
}

/** A configuration with the contents of its files. */
export interface ReadRun {
  /** With paths as written in the file. */
  written: ResolvedConfig;
  definition: AlgorithmDefinition;
  parts: ModelParts;
  data: AlgorithmData;
}

/**
 * Reads the model's header and the data.
 *
 * @param open Opens the model file.
 * @throws {ServiceError} Like {@link prepareRun}.
 */
export async function readRun(
  loaded: LoadedConfig,
  open?: typeof openGgufHeader,
  options: ReadDataOptions = {},
): Promise<ReadRun> {
  const { written, definition, parts } = await readModel(loaded, open);
  return { written, definition, parts, data: await definition.readData(written, parts, options) };
}

async function readModel(
  loaded: LoadedConfig,
  open?: typeof openGgufHeader,
): Promise<Omit<ReadRun, "data">> {
  const { model, lora: { init_adapter } } = loaded.config;
  const parts = await loadModelParts(model, templateVariables(loaded.config), open);
  const written = resolveLoaded(loaded, {
    path: resolve(loaded.path),
    ...parts,
    ...(init_adapter !== undefined && { init_adapter: await adapterShape(init_adapter) }),
  });
  return { written, definition: algorithmOf(written), parts };
}

/** Like {@link prepareRun}, without its data: its identity has only the model's files. */
export async function prepareModel(
  loaded: LoadedConfig,
  { by_client = false }: PrepareOptions = {},
): Promise<Pick<PreparedRun, "config" | "definition" | "identity" | "files"> & { createAlgorithm: null }> {
  const files = by_client ? await clientFiles(loaded.config, LOADED_INPUTS) : [];
  return await withCheckedFiles(files, async () => {
    const { written, definition } = await readModel(loaded);
    const config = await withRealPaths(written, files);
    const identity = await inputFingerprints(config, MODEL_INPUTS);
    return { config, definition, identity, files, createAlgorithm: null };
  });
}

/** The inputs of a run that its model is loaded from. */
const LOADED_INPUTS = [...MODEL_INPUTS, "lora.init_adapter"];

/**
 * Checks all that a run needs before it starts. Messages use paths as written; the prepared configuration has real
 * paths.
 *
 * @throws {ServiceError} `config_invalid`, `data_invalid`, `format_invalid`, `template_failed`, `not_built`;
 * `path_not_found` for a client's file whose path has become a link.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { loadRunConfig } from "../../config/check/load.ts";
 *
 * const { config, definition, warnings } = await prepareRun(await loadRunConfig("examples/tiny_agent_grpo.toml"));
 * assert.equal(config.model.path, await Deno.realPath("fixtures/models/tiny-agent-f16.gguf"));
 * assert.deepEqual([definition.objective, warnings], ["eval/pass_rate", []]);
 * ```
 */
export async function prepareRun(
  loaded: LoadedConfig,
  { by_client = false, ...read }: PrepareOptions = {},
): Promise<PreparedRun> {
  const files = by_client ? await clientFiles(loaded.config) : [];
  return await withCheckedFiles(files, async () => {
    const { written, definition, parts, data } = await readRun(loaded, undefined, read);
    const config = await withRealPaths(written, files), { key, path } = trainingData(config);
    return {
      config,
      definition,
      identity: identityOf(config, await inputFingerprints(config)),
      warnings: [
        ...configWarnings(written, parts),
        ...data.warnings,
        ...await heldoutWarnings({ key, path: path! }, config),
      ],
      files,
      createAlgorithm: (session, clock) => data.createAlgorithm(config, { session, clock }),
    };
  });
}

/** The shape of an adapter file. @throws {ServiceError} */
export async function adapterShape(path: string): Promise<AdapterShape> {
  const { rank, alpha, targets } = await readAdapter(path);
  return { rank, alpha, targets: targets.length === LORA_TARGETS.length ? "all" : targets };
}
