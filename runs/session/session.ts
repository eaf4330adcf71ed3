/** A run's session: the engine with its model, and the host of rollouts. */

import { dirname } from "node:path";
import { worldPermissions } from "../../agent/configured.ts";
import type { ReplaySource } from "../../agent/recording/replayer.ts";
import type { ResolvedConfig } from "../../config/check/derive.ts";
import { deviceFolder } from "../../core/device_lock.ts";
import { ServiceError } from "../../core/errors.ts";
import { PAGE_TOKENS } from "../../core/kv_pages.ts";
import { LORA_TARGETS, type LoraTarget } from "../../core/lora_targets.ts";
import { type PermissionNeeds, permissionsFor } from "../../core/permissions.ts";
import type { CheckedFile } from "../../core/regular_file.ts";
import {
  BUILT_WEBGPU_PROVIDERS,
  type WebGpuName,
  webGpuNeeds,
  type WebGpuTable,
} from "../../core/webgpu_providers.ts";
import type { EngineClient } from "../../trainer/protocol/client.ts";
import type {
  AdapterSource,
  EngineDemand,
  LoadRequest,
  LoraShape,
  ModelFacts,
} from "../../trainer/protocol/protocol.ts";
import type { AgentHost } from "./agent_host.ts";
import { agentClient, type AgentStart, recordingsOf, serveAgent } from "./agent_worker.ts";
import { acceptPorts, startEngine, startWorker, workerName } from "./workers.ts";

/** The workers of a run: the engine, and the host of its rollouts. */
export interface Session {
  engine: EngineClient;
  agent: AgentHost;
  /** Messages of graders' programs, for the run's log; ends when the session closes. */
  messages: AsyncIterable<string>;
  /** Releases the device; does not wait for lost workers. */
  close(): Promise<void>;
}

/** The sequences that rollouts open at once, and the most tokens of each. */
export interface SequenceDemand {
  count: number;
  tokens: number;
}

/** The most that a run's updates train on. */
export interface TrainingDemand {
  /** Trained tokens of an optimiser step, or scored tokens of a request. */
  targets: number;
  /** Whether divergences between policies are measured. */
  divergence: boolean;
  /** Whether an update keeps the policy's state until its end, because it changes it more than once. */
  keeps_state: boolean;
  /** Adapters of the policy's shape that the updates keep besides it. */
  adapters: number;
}

/** Requests that a live run with rollouts answers at a time, and the attempts at once of an evaluation on request. */
const ROLLOUT_REQUESTS = 4;

/**
 * The most requests that a live run answers at a time. Each may open one sequence of full length and one adapter; an
 * evaluation counts as all of them, and the end of the run waits for all before it opens another adapter.
 *
 * @param rollouts Null without rollouts: an evaluation then scores rows, and only generations sample.
 */
export function requestLimit(rollouts: SequenceDemand | null): number {
  return rollouts ? ROLLOUT_REQUESTS : 1;
}

/** The shape of a run's adapters. */
function loraShape({ lora }: ResolvedConfig): LoraShape {
  const targets: LoraTarget[] = lora.targets === "all" ? [...LORA_TARGETS] : lora.targets;
  return { rank: lora.rank, alpha: lora.alpha, targets };
}

/** The policy at the start of a run. */
export function policySource(config: ResolvedConfig): AdapterSource {
  const { init_adapter, seed } = config.lora;
  if (init_adapter !== undefined) return { type: "file", path: init_adapter };
  return { type: "init", lora: loraShape(config), seed };
}

/**
 * How to load the engine so that rollouts, evaluations and commands always fit.
 *
 * @param rollouts Null when only requests to a live run sample.
 * @param updates Absent without training.
 */
export function loadRequest(
  config: ResolvedConfig,
  rollouts: SequenceDemand | null,
  updates?: TrainingDemand,
): LoadRequest {
  const { model, training } = config, requests = requestLimit(rollouts);
  // A judge in the base model samples beside the rollouts, one group after the other.
  const judges = rollouts && config.agent?.judge?.type === "local" ? 1 : 0;
  return {
    path: model.path,
    device: { device: model.device, webgpu: model.webgpu },
    compute: model.compute,
    kv: model.kv,
    max_context: training.ctx,
    max_sequences: (rollouts?.count ?? 0) + requests + judges,
    kv_tokens: PAGE_TOKENS * (cachePages(training.ctx, rollouts) + judges * pagesOf(training.ctx)),
    micro_batch_tokens: training.micro_batch_tokens,
    loss_chunk_rows: training.loss_chunk_rows,
    gradient_checkpointing: training.gradient_checkpointing,
    ...(updates && { demand: engineDemand(config, updates, requests) }),
  };
}

const pagesOf = (tokens: number) => Math.ceil(tokens / PAGE_TOKENS);

/** Pages of the cache for rollouts and requests at full length. */
function cachePages(ctx: number, rollouts: SequenceDemand | null): number {
  // The one sequence of a generation shares no page.
  if (!rollouts) return pagesOf(ctx);
  // Every sequence shares all but one page of its prompt; one more prompt can be open without a member.
  const ofGroups = (rows: number, tokens: number) => (rows + 1) * (pagesOf(tokens) + 1);
  return ofGroups(rollouts.count, rollouts.tokens) +
    ofGroups(requestLimit(rollouts), Math.max(ctx, rollouts.tokens));
}

function engineDemand(
  config: ResolvedConfig,
  { adapters, ...more }: TrainingDemand,
  requests: number,
): EngineDemand {
  return { lora: loraShape(config), other_adapters: adapters + requests, ...more };
}

export interface WorkerSessionOptions {
  config: ResolvedConfig;
  /** The files that the agent opens only as they were checked; the engine gets its own with its model. */
  files: readonly CheckedFile[];
  /** The program's entry file, also for its workers. */
  entry_url: string;
  /** The folder for workspaces. */
  workspaces: string;
  /** Files and folders that the engine reads besides those of the configuration. */
  readable: string[];
  /** The recording that the run replays. Absent: none. */
  replay?: ReplaySource | null;
}

/**
 * Starts both workers with narrow permissions, and connects them.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { testConfig } from "../config_testing.ts";
 *
 * const folder = await Deno.makeTempDir(), entry_url = import.meta.resolve("../../cli.ts");
 * const config = testConfig(folder), options = { config, files: [], workspaces: folder, readable: [] };
 * const session = openWorkerSession({ ...options, entry_url });
 * await assert.rejects(session.engine.call("counters", null), /before a model is loaded/);
 * await session.close();
 * await Deno.remove(folder, { recursive: true });
 * ```
 */
export function openWorkerSession(options: WorkerSessionOptions): Session {
  const { config, files, entry_url, workspaces, readable, replay = null } = options;
  const permissions = enginePermissions(config.model.webgpu, engineFiles(config, readable));
  const engine = startEngine({ entry_url, permissions });
  const agent_worker = startWorker("agent", {
    entry_url,
    permissions: agentPermissions(config, { workspaces, replay }),
  });
  const start: AgentStart = { config, files, workspaces, replay };
  const port = agent_worker.connect(start, [engine.port()]);
  const { host, client, messages } = agentClient(port);
  agent_worker.failed.then((error) => client.fail(error));
  // The agent worker waits for answers at its own port to the engine, which will not come.
  engine.failed.then((error) => client.fail(error));
  return {
    engine: engine.client,
    agent: host,
    messages,
    async close() {
      client.fail(new ServiceError("cancelled", "Cannot go on: the session was closed"));
      const agent_gone = agent_worker.close();
      port.close();
      await engine.close();
      await agent_gone;
      messages.close();
    },
  };
}

/** An engine's permissions: its files, its WebGPU and the lock of its device. */
export function enginePermissions(
  webgpu: WebGpuName,
  files: PermissionNeeds,
  built: WebGpuTable = BUILT_WEBGPU_PROVIDERS,
): Deno.PermissionOptionsObject {
  const folder = deviceFolder();
  return permissionsFor([files, ...webGpuNeeds(webgpu, built), { read: [folder], write: [folder] }]);
}

function engineFiles(config: ResolvedConfig, readable: string[]): PermissionNeeds {
  const { run, model, lora, output, checkpoint } = config;
  const written = [run.directory, dirname(output.path)];
  if (checkpoint) written.push(checkpoint.directory);
  if (output.peft_dir) written.push(output.peft_dir, dirname(output.peft_dir));
  const read = [model.path, ...written, ...readable];
  if (lora.init_adapter) read.push(lora.init_adapter);
  return { read, write: written };
}

/**
 * The agent's permissions: to read the model's file and `chat_template`, those of the configured world, and to write
 * recordings. A replay has no world: it reads the recordings.
 */
export function agentPermissions(
  config: ResolvedConfig,
  { workspaces, replay }: { workspaces: string; replay: ReplaySource | null },
): Deno.PermissionOptionsObject {
  const { model: { path, chat_template }, run } = config;
  const read = chat_template === undefined ? [path] : [path, chat_template];
  if (replay) return permissionsFor([{ read: [...read, replay.folder] }]);
  const folder = [recordingsOf(run.directory)],
    recordings = run.record ? [{ read: folder, write: folder }] : [];
  return permissionsFor([{ read }, ...worldPermissions(config, { workspaces }), ...recordings]);
}

/**
 * Runs the program's entry as one of its workers; returns false on the main thread.
 *
 * @param serveEngine Serves the engine's protocol on a port; every port is another client of the one engine.
 */
export function runAsWorker(serveEngine: (port: MessagePort) => void): boolean {
  const name = workerName();
  if (name === "engine") acceptPorts((port) => serveEngine(port));
  if (name === "agent") acceptPorts((port, data, [engine]) => serveAgent(port, data as AgentStart, engine!));
  return name !== null;
}

/** The warning when `device = "auto"` found only a software adapter. */
export function softwareWarning(
  config: ResolvedConfig,
  facts: Pick<ModelFacts, "device">,
): string | null {
  if (!facts.device.software || config.model.device !== "auto") return null;
  return `no GPU was found: the run uses the software adapter ${facts.device.name}, which is slow`;
}

/** Which WebGPU a run on a GPU uses, and why, what is left out, and what was measured; null on a software adapter without a choice. */
export function providerMessage({ device }: Pick<ModelFacts, "device">): string | null {
  const { name, webgpu, webgpu_reason, software, left_out = [], tuning } = device;
  const measured = tuning === undefined ? "" : `; ${tuning}`;
  if (!software) {
    const without = left_out.length === 0
      ? ""
      : `; left out, because its driver is wrong: ${left_out.join("; ")}`;
    return `the device is ${name}, through the WebGPU of ${webgpu}: ${webgpu_reason}${without}${measured}`;
  }
  return tuning === undefined ? null : `the device is ${name}${measured}`;
}
