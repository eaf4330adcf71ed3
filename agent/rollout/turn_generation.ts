/** Samples the tokens of one turn. */

import type { EngineClient } from "../../trainer/protocol/client.ts";
import type { EngineMethods, GenerationStop } from "../../trainer/protocol/protocol.ts";

export interface GeneratedTurn {
  tokens: number[];
  logprobs: number[];
  stop: GenerationStop;
}

/** Collects a generation. When the signal aborts, it stops the engine and keeps the tokens so far. */
export async function generateTurn(
  engine: EngineClient,
  request: EngineMethods["sequence_generate"]["request"],
  signal: AbortSignal,
): Promise<GeneratedTurn> {
  const turn: GeneratedTurn = { tokens: [], logprobs: [], stop: "cancelled" };
  if (signal.aborted) return turn;
  const { sequence } = request;
  const cancel = () => void engine.call("sequence_cancel", { sequence }).catch(() => {});
  signal.addEventListener("abort", cancel, { once: true });
  try {
    for await (const block of engine.generate(request)) {
      turn.tokens.push(...block.tokens);
      turn.logprobs.push(...block.logprobs);
      if (block.stop !== null) turn.stop = block.stop;
    }
    return turn;
  } finally {
    signal.removeEventListener("abort", cancel);
  }
}
