/** The refusal of a request for which the device has no memory. */

import type { ServiceError } from "../../core/errors.ts";
import { formatBytes } from "../../core/text.ts";
import { memoryPosts, NAMED_POSTS, type Plan, UNKNOWN_BUDGET } from "../../runs/plan/plan.ts";
import { Problem } from "../http/problems.ts";

interface Refused {
  /** The field of the request that needs the memory; `""` when it has none. */
  pointer: string;
  /** The requested work, as in "Cannot <doing>". */
  doing: string;
  /** The plan of the run that should answer. */
  plan: Plan;
}

/**
 * Converts an `out_of_memory` to `insufficient-memory`. An error of the planner has its `meta` already. When the device
 * refused memory, the missing bytes are not known: then `overflow_bytes` is 0, and the posts are those that the engine
 * counted, else those of the run's plan.
 */
export function memoryProblem(
  { message, details }: ServiceError,
  { pointer, doing, plan: { memory } }: Refused,
): Problem {
  if (details.dominant_posts !== undefined) return problemOf(message, { pointer, meta: details });
  const { bytes } = details as { bytes?: Record<string, number> };
  const dominant_posts = (bytes ? memoryPosts({ bytes }) : memory.posts).slice(0, NAMED_POSTS);
  const named = dominant_posts.map(({ post, bytes }) => `${post} ${formatBytes(bytes)}`).join(", ");
  const reason =
    `the device has no memory for the model${named && ` (${named})`}; end other programs that use ` +
    "the device, or give the server one with more memory";
  const { ram_budget_bytes } = memory, vram_budget_bytes = memory.vram_budget_bytes ?? UNKNOWN_BUDGET;
  return problemOf(`Cannot ${doing}: ${reason}`, {
    pointer,
    meta: {
      ...{ overflow_bytes: 0, vram_budget_bytes, ram_budget_bytes, dominant_posts },
      ...{ levers_applied: [], unlocks: [] },
    },
  });
}

function problemOf(message: string, { pointer, meta }: { pointer: string; meta: unknown }): Problem {
  return new Problem("insufficient-memory", message, {
    errors: [{ pointer, code: "out_of_range", message }],
    meta: JSON.parse(JSON.stringify(meta)),
  });
}
