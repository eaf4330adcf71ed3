/** One turn's tokens from the engine. */

import type { EngineClient } from "../../trainer/engine/client.ts";
import type { EngineMethods, GenerationStop } from "../../trainer/engine/protocol.ts";

export interface GeneratedTurn {
  tokens: number[];
  logprobs: number[];
  stop: GenerationStop;
}

/** Drains a generation; when the signal aborts, the engine is told and what was drawn so far is kept. */
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
