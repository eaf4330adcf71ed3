/** Plans the memory of a process that serves a model. */

import { PAGE_TOKENS } from "../../core/kv_pages.ts";
import { LORA_TARGETS } from "../../core/lora_targets.ts";
import { ServiceError } from "../../core/errors.ts";
import { checkedFile } from "../../core/regular_file.ts";
import { unbindableProblem } from "../../trainer/engine/memory_advice.ts";
import { type MemoryPlan, planServedMemory } from "../../trainer/engine/plan_memory.ts";
import type { EngineSizes } from "../../trainer/protocol/protocol.ts";
import { openGgufHeader } from "../../trainer/formats/gguf.ts";
import { MAX_CHOICES } from "../chat/chat_request.ts";
import { exceededMemories, fitsBudget, type MemoryBudget } from "./levers.ts";
import { exceededText, memoryMeta, type PlanTarget } from "./plan.ts";

/** The most sequences that are sampled at once; every choice is one. As many adapters stay open. */
export const SERVED_SEQUENCES = MAX_CHOICES;

/** The base model to load, and the sizes that its runs need. */
export interface ServingDemand
  extends Pick<EngineSizes, "compute" | "kv" | "micro_batch_tokens" | "loss_chunk_rows"> {
  /** The real path of the model's file. */
  path: string;
  /** The longest sequences to plan for; the first that fits is taken. */
  contexts: number[];
  /** The largest rank of an adapter. */
  rank: number;
}

/** How a base is loaded. */
export interface ServingPlan {
  max_context: number;
  /** The sequences that are sampled at once, and the adapters that stay open. */
  sequences: number;
}

export interface ServingPlanRequest {
  demand: ServingDemand;
  target: PlanTarget;
}

/** The plan where the size of the device's memory is not known. */
export function fullPlan({ contexts }: ServingDemand): ServingPlan {
  return { max_context: contexts[0]!, sequences: SERVED_SEQUENCES };
}

/** The engine's sizes for a plan. */
export function servedSizes(
  { compute, kv, micro_batch_tokens, loss_chunk_rows }: ServingDemand,
  { max_context, sequences }: ServingPlan,
): EngineSizes {
  return {
    ...{ compute, kv, micro_batch_tokens, loss_chunk_rows, max_context, max_sequences: sequences },
    // Each sequence at full length, and one more page for what it copies of its prompt's last one.
    kv_tokens: sequences * (Math.ceil(max_context / PAGE_TOKENS) + 1) * PAGE_TOKENS,
  };
}

/**
 * Plans to sample as many sequences at once as the memory has room for. Reads only the header of the model's file.
 *
 * @throws {ServiceError} `out_of_memory` when not even one sequence of the shortest context fits; its details are the
 * contract's `meta` of `insufficient-memory`; `path_not_found` for a path that has become a link.
 */
export async function planServing({ demand, target }: ServingPlanRequest): Promise<ServingPlan> {
  using file = await openGgufHeader(await checkedFile(demand.path));
  const { card, ...budget } = target;
  const lora = { rank: demand.rank, alpha: demand.rank, targets: [...LORA_TARGETS] };
  const measure = (plan: ServingPlan) => {
    const served = { sizes: servedSizes(demand, plan), lora, adapters: plan.sequences };
    return planServedMemory(file, served, card);
  };
  for (const max_context of demand.contexts) {
    for (let sequences = SERVED_SEQUENCES; sequences >= 1; sequences >>= 1) {
      const plan = { max_context, sequences };
      if (fitsBudget(measure(plan), budget)) return plan;
    }
  }
  throw servingRefusal(measure({ max_context: demand.contexts.at(-1)!, sequences: 1 }), target);
}

/** Why a device cannot serve a model, when one answer at a time takes this memory. */
function servingRefusal(memory: MemoryPlan, budget: MemoryBudget): ServiceError {
  const short = exceededMemories(memory, budget), key = short[0]?.of === "machine" ? "ram" : "vram";
  const reason = unbindableProblem(memory.unbindable) ??
    `for one answer at a time ${short.map(exceededText).join(", and ")}; give the server a larger ` +
      `[limits].${key}, or serve a run with a shorter training.ctx`;
  return new ServiceError(
    "out_of_memory",
    `Cannot serve the model: ${reason}`,
    memoryMeta(memory, budget),
  );
}
