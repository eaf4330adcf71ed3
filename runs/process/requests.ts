/** Requests about a run: an evaluation, or one assistant turn. */

import { type Message, openAiTool, type ToolDefinition, type ToolFunction } from "../../core/chat.ts";
import { errorRecord, ServiceError } from "../../core/errors.ts";
import { rngKey } from "../../core/random.ts";
import { type AdapterSource, CHECKPOINT_ADAPTER } from "../../trainer/protocol/protocol.ts";
import type { Algorithm, EvaluationResult } from "../algorithms/algorithm.ts";
import { checkAdapter } from "../directory/checked_adapter.ts";
import { listCheckpoints } from "../directory/checkpoint.ts";
import type { ChatEvent } from "../chat/chat_request.ts";
import type { GenerateAnswer } from "../session/agent_host.ts";
import type { Session } from "../session/session.ts";
import type { LiveRequest } from "./control.ts";

export interface LiveRequestContext {
  session: Session;
  evaluate: Algorithm["evaluate"];
  /** The adapter that answers when a request names no checkpoint. */
  policy: AdapterSource;
  /** The folder of the checkpoints. */
  checkpoints: string;
  /** Distinguishes the adapters of requests that are open at the same time. */
  number: number;
  /** Attempts at once of an evaluation. */
  concurrent_rollouts: number;
  /** Sends a part of the answer of a chat; absent where nobody chats. */
  emit?: (event: ChatEvent) => void;
}

/**
 * Answers with the policy, which a live run copies, or with a checkpoint's adapter. A training step never waits for an
 * answer, and the request uses its own random numbers.
 */
export async function answerRequest(
  command: LiveRequest,
  context: LiveRequestContext,
  signal: AbortSignal,
): Promise<EvaluationResult | GenerateAnswer | null> {
  const { session: { engine, agent }, number, concurrent_rollouts } = context;
  const is_base = command.command !== "evaluate" && !command.adapter;
  const adapter = is_base ? null : `request_${number}`;
  if (adapter !== null) {
    await engine.call("adapter_open", { adapter, source: await adapterSource(command, context) });
  }
  try {
    if (command.command === "evaluate") {
      const { limit } = command;
      return await context.evaluate({ adapter, limit, concurrent_rollouts, signal });
    }
    if (command.command === "chat") {
      for await (const event of agent.chat({ request: command.request, adapter }, signal)) {
        context.emit?.(event);
      }
      return null;
    }
    const { messages, tools, max_new_tokens, temperature, top_p, seed } = command;
    return await agent.generate({
      messages: messages as unknown as Message[],
      tools: (tools as unknown as ToolDefinition[]).map((tool) => openAiTool(tool).function as ToolFunction),
      max_new_tokens,
      temperature,
      top_p,
      rng_key: rngKey(seed, "generate"),
      adapter,
    }, signal);
  } finally {
    if (adapter !== null) await engine.call("adapter_close", { adapter }).catch(ignoreLostDevice);
  }
}

async function adapterSource(
  command: LiveRequest,
  { checkpoints, policy }: LiveRequestContext,
): Promise<AdapterSource> {
  const { checkpoint } = command;
  if (checkpoint === undefined) return policy;
  if (!(await listCheckpoints(checkpoints)).includes(checkpoint)) {
    throw new ServiceError(
      "config_invalid",
      `Cannot ${command.command}: there is no checkpoint ${checkpoint}`,
      { field: "checkpoint" },
    );
  }
  const path = `${checkpoints}/${checkpoint}/${CHECKPOINT_ADAPTER}`;
  await checkAdapter(path);
  return { type: "file", path };
}

function ignoreLostDevice(error: unknown): void {
  if (errorRecord(error).code !== "device_lost") throw error;
}
