/** The models that can be served, by name: `<run id>`, `<run id>@<checkpoint>`, `<run id>@base`. */

import type { ResolvedConfig } from "../../config/check/derive.ts";
import { templateVariables } from "../../config/check/own_section.ts";
import { CHECKPOINT_ADAPTER, type LoadRequest, PAGE_TOKENS } from "../../trainer/protocol/protocol.ts";
import type { Fleet } from "../fleet/fleet.ts";
import type { KeptRun } from "../fleet/kept_run.ts";
import { type AdapterFile, type Rendering, SERVED_SEQUENCES } from "./protocol.ts";

const NAME = /^(run_[0-9A-HJKMNP-TV-Z]{26})(?:@(base|update_\d{6,}))?$/;

/** A name that clients give as `model`. */
export interface ServedModel {
  name: string;
  run: KeptRun;
  /** `policy`: the run's adapter; `base`: none; else a checkpoint. */
  part: "policy" | "base" | { checkpoint: string };
  /** Null for the base, and for the policy of a run that has not written an adapter yet. */
  adapter: string | null;
}

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

function checkpointAdapter(run: KeptRun, checkpoint: string): string {
  return `${run.checkpointRoot}/${checkpoint}/${CHECKPOINT_ADAPTER}`;
}

/** The adapter that a completed run wrote, else that of its newest checkpoint; null without one. */
async function policyAdapter(run: KeptRun, checkpoints: readonly string[]): Promise<string | null> {
  const written = `${run.directory}/adapter.gguf`;
  if (run.record.state === "completed" && await versionOf(written)) return written;
  const newest = checkpoints.at(-1);
  return newest === undefined ? null : checkpointAdapter(run, newest);
}

async function versionOf(path: string): Promise<string | null> {
  const facts = await Deno.stat(path).catch(() => null);
  return facts && `${facts.ino} ${facts.size} ${facts.mtime?.getTime()}`;
}

/** An adapter's file; null when it is gone. */
export async function adapterFile(path: string): Promise<AdapterFile | null> {
  const version = await versionOf(path);
  return version === null ? null : { path, version };
}

/** The names of a run, the most useful first. */
export async function namesOf(run: KeptRun): Promise<string[]> {
  const checkpoints = await run.checkpoints();
  const policy = run.child !== null || await policyAdapter(run, checkpoints) !== null ? [run.id] : [];
  return [...policy, `${run.id}@base`, ...checkpoints.reverse().map((name) => `${run.id}@${name}`)];
}

/** The configuration that a run was created with. */
export function configOf(run: KeptRun): ResolvedConfig {
  return run.service.plan.config;
}

/** What says how a run's conversations are rendered. */
export function renderingOf(run: KeptRun): Rendering {
  const config = configOf(run), { path, chat_template } = config.model;
  return {
    model: { path, ...(chat_template === undefined ? {} : { chat_template }) },
    variables: templateVariables(config),
  };
}

/** Runs with the same key have the same base, loaded in the same way. */
export function baseKey(run: KeptRun): string {
  const { path, device, webgpu, compute, kv } = configOf(run).model;
  return JSON.stringify([path, device, webgpu, compute, kv]);
}

/** How to load the base of a run, with the longest context of these runs. */
export function servedLoad(run: KeptRun, others: readonly KeptRun[]): LoadRequest {
  const { model, training } = configOf(run), key = baseKey(run);
  const same = others.filter((other) => baseKey(other) === key).map((other) => configOf(other).training.ctx);
  const max_context = Math.max(training.ctx, ...same);
  return {
    path: model.path,
    device: { device: model.device, webgpu: model.webgpu },
    compute: model.compute,
    kv: model.kv,
    max_context,
    max_sequences: SERVED_SEQUENCES,
    // Each sequence at full length, and one more page for what it copies of its prompt's last one.
    kv_tokens: SERVED_SEQUENCES * (Math.ceil(max_context / PAGE_TOKENS) + 1) * PAGE_TOKENS,
    micro_batch_tokens: training.micro_batch_tokens,
    loss_chunk_rows: training.loss_chunk_rows,
  };
}
