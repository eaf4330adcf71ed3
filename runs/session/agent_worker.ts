/** The agent worker: rollouts, tools and environments, called over a port. */

import { type ConfiguredWorld, configuredWorld } from "../../agent/configured.ts";
import type { ResolvedConfig } from "../../config/check/derive.ts";
import { systemClock } from "../../core/clock.ts";
import { RpcClient, type RpcPort, serveRpc } from "../../core/rpc.ts";
import { EngineClient } from "../../trainer/engine/client.ts";
import { type AgentHost, createAgentHost, rolloutSettings } from "./agent_host.ts";
import { chatOf, loadModelParts } from "./model_parts.ts";

/** Data from the supervisor besides the ports. */
export interface AgentStart {
  config: ResolvedConfig;
  /** The folder for workspaces. */
  workspaces: string;
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
    generate: async (request, signal) => await (await opening).host.generate(request, signal),
    async *chat(request, signal) {
      return yield* (await opening).host.chat(request, signal);
    },
  };
  serveRpc(port, { ...methods });
  return async () => {
    const opened = await opening.catch(() => null);
    await opened?.world?.close();
  };
}

async function openHost(
  { config, workspaces }: AgentStart,
  engine: EngineClient,
): Promise<{ host: AgentHost; world: ConfiguredWorld | null }> {
  const parts = await loadModelParts(config);
  const clock = systemClock;
  const world = configuredWorld(config, { clock, workspaces });
  const host = createAgentHost({
    settings: config.agent ? rolloutSettings(config.agent) : null,
    engine,
    chat: chatOf(parts),
    model: parts,
    max_context: config.training.ctx,
    environment: world?.environments ?? null,
    graders: world?.graders ?? [],
    clock,
  });
  return { host, world };
}

/** The supervisor's end of {@link serveAgent}. */
export function agentClient(port: RpcPort): { host: AgentHost; client: RpcClient<AgentMethods> } {
  const client = new RpcClient<AgentMethods>(port);
  const host: AgentHost = {
    rollout: (request, signal) => client.stream("rollout", request, signal),
    generate: (request, signal) => client.call("generate", request, signal),
    chat: (request, signal) => client.stream("chat", request, signal),
  };
  return { host, client };
}

type AgentMethods = Pick<AgentHost, "rollout" | "generate" | "chat">;
