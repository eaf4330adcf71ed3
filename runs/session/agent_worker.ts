/** The agent worker: rollouts, tools and environments, called over a port. */

import { join } from "node:path";
import { type ConfiguredWorld, configuredWorld } from "../../agent/configured.ts";
import { recordingTapes } from "../../agent/recording/recorder.ts";
import { RECORDINGS } from "../../agent/recording/recording_file.ts";
import { type ReplaySource, replayTapes } from "../../agent/recording/replayer.ts";
import type { Tapes } from "../../agent/recording/tape.ts";
import type { ResolvedConfig } from "../../config/check/derive.ts";
import { templateVariables } from "../../config/check/own_section.ts";
import { AsyncQueue } from "../../core/async_queue.ts";
import { systemClock } from "../../core/clock.ts";
import { type CheckedFile, withCheckedFiles } from "../../core/regular_file.ts";
import { RpcClient, type RpcPort, serveRpc } from "../../core/rpc.ts";
import { EngineClient } from "../../trainer/protocol/client.ts";
import { type AgentHost, createAgentHost, rolloutSettings } from "./agent_host.ts";
import { baseModel } from "./base_model.ts";
import { chatOf, loadModelParts } from "./model_parts.ts";

/** Data from the supervisor besides the ports. */
export interface AgentStart {
  config: ResolvedConfig;
  /** The files that are opened only as they were checked. */
  files: readonly CheckedFile[];
  /** The folder for workspaces. */
  workspaces: string;
  /** The recording that the run replays; absent: none. */
  replay?: ReplaySource | null;
}

/**
 * Serves an {@link AgentHost} on a port; `engine` is the port of the engine worker.
 *
 * @returns Closes what the attempts share, such as tool hosts.
 */
export function serveAgent(port: RpcPort, start: AgentStart, engine: MessagePort): () => Promise<void> {
  const opening = openHost(start, new EngineClient(engine));
  // An unreadable model file fails every call, not the worker.
  opening.catch(() => {});
  const methods: AgentHost = {
    async *rollout(request, signal) {
      return yield* (await opening).host.rollout(request, signal);
    },
    async *groups(request, signal) {
      return yield* (await opening).host.groups(request, signal);
    },
    generate: async (request, signal) => await (await opening).host.generate(request, signal),
    async *chat(request, signal) {
      return yield* (await opening).host.chat(request, signal);
    },
  };
  serveRpc(port, { ...methods });
  opening.then(({ world }) => world && passMessages(world, port)).catch(() => {});
  return async () => {
    const opened = await opening.catch(() => null);
    await opened?.world?.close();
  };
}

async function openHost(
  { config, files, workspaces, replay = null }: AgentStart,
  engine: EngineClient,
): Promise<{ host: AgentHost; world: ConfiguredWorld | null }> {
  const variables = templateVariables(config);
  const parts = await withCheckedFiles(files, () => loadModelParts(config.model, variables));
  const clock = systemClock;
  const is_judge = config.agent?.judge?.type === "local";
  const judge = is_judge ? { base_model: baseModel({ engine, parts, config, files }) } : {};
  // A replay has the recorded tools. Its thread may not read what servers would need, such as variables.
  const world = configuredWorld(config, { clock, workspaces, ...judge }, replay ? [] : undefined);
  const host = createAgentHost({
    settings: config.agent ? rolloutSettings(config.agent) : null,
    engine,
    chat: chatOf(parts),
    model: parts,
    max_context: config.training.ctx,
    environment: world?.environments ?? null,
    graders: world?.graders ?? [],
    tapes: tapesOf(config, replay),
    clock,
  });
  return { host, world };
}

/** Replays the recording, or records where the configuration says so. */
function tapesOf({ run }: ResolvedConfig, replay: ReplaySource | null): Tapes | null {
  if (replay) return replayTapes(replay);
  return run.record ? recordingTapes(recordingsOf(run.directory)) : null;
}

/** The folder of recordings in a run's folder. */
export const recordingsOf = (directory: string) => join(directory, RECORDINGS);

/** A notice from the worker: what a program of a grader said. */
interface MessageNotice {
  message: string;
}

async function passMessages({ messages }: ConfiguredWorld, port: RpcPort): Promise<void> {
  for await (const message of messages) port.postMessage({ message } satisfies MessageNotice);
}

/** The supervisor's end of {@link serveAgent}. */
export interface AgentClient {
  host: AgentHost;
  client: RpcClient<AgentMethods>;
  /** See `ConfiguredWorld.messages`. They must be closed with the client. */
  messages: AsyncQueue<string>;
}

/** Connects to {@link serveAgent}. */
export function agentClient(port: RpcPort): AgentClient {
  const messages = new AsyncQueue<string>();
  const client = new RpcClient<AgentMethods>(port, (notice) => {
    messages.push((notice as MessageNotice).message);
  });
  const host: AgentHost = {
    rollout: (request, signal) => client.stream("rollout", request, signal),
    groups: (request, signal) => client.stream("groups", request, signal),
    generate: (request, signal) => client.call("generate", request, signal),
    chat: (request, signal) => client.stream("chat", request, signal),
  };
  return { host, client, messages };
}

type AgentMethods = Pick<AgentHost, "rollout" | "groups" | "generate" | "chat">;
