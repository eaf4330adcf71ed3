/** A plan with measurements in the place of its estimates. */

import { keyOfComponent } from "../../trainer/engine/memory_advice.ts";
import { formatBytes } from "../../core/text.ts";
import { isHostPost, type MemoryPost, memoryPosts, NAMED_POSTS, type Plan, UNKNOWN_BUDGET } from "./plan.ts";

/** Measurements on the device. */
export interface Measured {
  seconds: number;
  /** The tokens of these seconds. */
  tokens: number;
  /** Bytes on the device by component. */
  bytes: Record<string, number>;
}

const sumOf = (posts: readonly MemoryPost[]) => posts.reduce((sum, { bytes }) => sum + bytes, 0);

/** The posts are those on the device after the measured update; the time is that of an update's tokens. */
export function calibratedPlan(plan: Plan, { seconds, tokens, bytes }: Measured): Plan {
  const { schedule, config: { training } } = plan, on_device = memoryPosts({ bytes });
  const copies = plan.memory.posts.filter(({ post }) => isHostPost(post));
  const peak_bytes = sumOf(on_device), copied_bytes = sumOf(copies);
  // A software adapter's memory is the machine's.
  const is_software = plan.memory.host_peak_bytes > copied_bytes;
  const seconds_per_update = seconds * schedule.tokens_per_update / tokens;
  const limits = [
    ...(schedule.updates === null ? [] : [schedule.updates * seconds_per_update]),
    ...(training.max_minutes === undefined ? [] : [training.max_minutes * 60]),
  ];
  const eta_seconds = limits.length === 0 ? null : Math.min(...limits);
  return {
    ...plan,
    memory: {
      ...plan.memory,
      posts: [...on_device, ...copies].sort((a, b) => b.bytes - a.bytes),
      peak_bytes,
      host_peak_bytes: copied_bytes + (is_software ? peak_bytes : 0),
    },
    schedule: { ...schedule, seconds_per_update, eta_seconds, calibrated: true },
  };
}

/**
 * Why a plan does not fit the device's budget; null when it does.
 *
 * @param has_failed Whether the device had not enough memory for the measurement, whatever the plan says.
 */
export function overflow(
  { memory, levers_applied }: Plan,
  has_failed: boolean,
): { key: string; message: string; meta: Record<string, unknown> } | null {
  const { posts, peak_bytes, vram_budget_bytes, ram_budget_bytes } = memory;
  const overflow_bytes = Math.max(0, peak_bytes - (vram_budget_bytes ?? Infinity));
  if (overflow_bytes === 0 && !has_failed) return null;
  const message = has_failed
    ? `the device has no memory for it, although the plan takes ${
      formatBytes(peak_bytes)
    }: it is used by others`
    : `it takes ${formatBytes(peak_bytes)} of the device's ${formatBytes(vram_budget_bytes!)}, as measured`;
  const dominant_posts = posts.filter(({ post }) => !isHostPost(post)).slice(0, NAMED_POSTS);
  const meta = {
    ...{ overflow_bytes, ram_budget_bytes, dominant_posts, levers_applied, unlocks: [] },
    vram_budget_bytes: vram_budget_bytes ?? UNKNOWN_BUDGET,
  };
  return { key: keyOfComponent(dominant_posts[0]?.post ?? "weights"), message, meta };
}
