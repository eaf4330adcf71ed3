/** The models that can be served, by name: `<run id>`, `<run id>@<checkpoint>`, `<run id>@base`. */

import type { ResolvedConfig } from "../../config/check/derive.ts";
import { loadRunConfig } from "../../config/check/load.ts";
import { CHECKPOINT_ADAPTER } from "../../trainer/protocol/protocol.ts";
import type { Fleet } from "../fleet/fleet.ts";
import type { ManagedRun } from "../fleet/managed_run.ts";
import { PROCESS_CONFIG } from "../fleet/service_record.ts";
import type { ServingDemand } from "../plan/plan_serving.ts";
import type { AdapterFile } from "./protocol.ts";

const NAME = /^(run_[0-9A-HJKMNP-TV-Z]{26})(?:@(base|update_\d{6,}))?$/;

/** A name that clients give as `model`. */
export interface ServedModel {
  name: string;
  run: ManagedRun;
  /** `policy`: the run's adapter; `base`: none; else a checkpoint. */
  part: "policy" | "base" | { checkpoint: string };
  /** Null for the base, and for the policy of a run that has not written an adapter yet. */
  adapter: AdapterPlace | null;
}

/** The place of an adapter's file. */
type AdapterPlace = Pick<AdapterFile, "path" | "checkpoint">;

/** Finds a model; null when there is no such run or checkpoint. */
export async function findServedModel(fleet: Fleet, name: string): Promise<ServedModel | null> {
  const [, id, part] = NAME.exec(name) ?? [];
  const run = id === undefined ? null : fleet.get(id);
  if (!run) return null;
  if (part === "base") return { name, run, part, adapter: null };
  const checkpoints = await run.checkpoints();
  if (part === undefined) {
    return { name, run, part: "policy", adapter: await policyAdapter(run, checkpoints) };
  }
  if (!checkpoints.includes(part)) return null;
  return { name, run, part: { checkpoint: part }, adapter: checkpointAdapter(run, part) };
}

function checkpointAdapter(run: ManagedRun, name: string): AdapterPlace {
  const checkpoint = `${run.checkpointRoot}/${name}`;
  return { path: `${checkpoint}/${CHECKPOINT_ADAPTER}`, checkpoint };
}

/** The adapter that a completed run wrote, else that of its newest checkpoint; null without one. */
async function policyAdapter(run: ManagedRun, checkpoints: readonly string[]): Promise<AdapterPlace | null> {
  const path = `${run.directory}/adapter.gguf`;
  if (run.record.state === "completed" && await versionOf(path)) return { path, checkpoint: null };
  const newest = checkpoints.at(-1);
  return newest === undefined ? null : checkpointAdapter(run, newest);
}

async function versionOf(path: string): Promise<string | null> {
  const facts = await Deno.stat(path).catch(() => null);
  return facts && `${facts.ino} ${facts.size} ${facts.mtime?.getTime()}`;
}

/** An adapter's file; null when it is gone. */
export async function adapterFileAt(place: AdapterPlace): Promise<AdapterFile | null> {
  const version = await versionOf(place.path);
  return version === null ? null : { ...place, version };
}

/** The names of a run, the most useful first. */
export async function namesOf(run: ManagedRun): Promise<string[]> {
  const checkpoints = await run.checkpoints();
  const policy = run.child !== null || await policyAdapter(run, checkpoints) !== null ? [run.id] : [];
  return [...policy, `${run.id}@base`, ...checkpoints.reverse().map((name) => `${run.id}@${name}`)];
}

/** The configuration that a run was created with. */
export function configOf(run: ManagedRun): ResolvedConfig {
  return run.service.plan.config;
}

/** How a base is loaded. */
type BaseModel = Pick<ResolvedConfig["model"], "path" | "device" | "webgpu" | "compute" | "kv">;

const base_models = new WeakMap<ManagedRun, Promise<BaseModel>>();

/** How the base of a run is loaded. Its path has no links, because a link that a client named may lead elsewhere now. */
export function baseModel(run: ManagedRun): Promise<BaseModel> {
  let model = base_models.get(run);
  if (!model) {
    model = loadRunConfig(`${run.directory}/${PROCESS_CONFIG}`, { check_paths: false })
      .then(({ config }) => config.model);
    base_models.set(run, model);
    model.catch(() => base_models.delete(run));
  }
  return model;
}

/** Runs with the same key have the same base, loaded in the same way. */
export function baseKey({ path, device, webgpu, compute, kv }: BaseModel): string {
  return JSON.stringify([path, device, webgpu, compute, kv]);
}

/** The demand of serving a run, for the longest context and the largest adapter of all runs with the same base. */
export function servingDemand(
  run: ManagedRun,
  { model: { path, compute, kv }, others }: { model: BaseModel; others: readonly ManagedRun[] },
): ServingDemand {
  const own = configOf(run), key = baseKey(own.model);
  const same = [own, ...others.map(configOf).filter(({ model }) => baseKey(model) === key)];
  const { micro_batch_tokens, loss_chunk_rows, ctx } = own.training;
  return {
    ...{ path, compute, kv, micro_batch_tokens, loss_chunk_rows },
    contexts: [...new Set([Math.max(...same.map(({ training }) => training.ctx)), ctx])],
    rank: Math.max(...same.map(({ lora }) => lora.rank)),
  };
}

/** Whether a loaded base is large enough for the context and the adapter of a run. */
export function canServe(
  { max_context, rank }: { max_context: number; rank: number },
  run: ManagedRun,
): boolean {
  const { training, lora } = configOf(run);
  return max_context >= training.ctx && rank >= lora.rank;
}
