/** Errors for a device without enough memory, with the configuration keys that save memory. */

import type { DeviceFacts } from "../../core/device.ts";
import { ServiceError } from "../../core/errors.ts";
import { formatBytes } from "../../core/text.ts";
import type { MemoryPlan } from "./plan_memory.ts";

const SEQUENCES =
  "lower training.ctx, and with rollouts agent.concurrent_rollouts or agent.max_trajectory_tokens";
const ADAPTER = { key: "lora.rank", advice: "lower lora.rank, or name fewer lora.targets" };

/** How to make each component smaller: the key that counts most, and all of them. The allocators name components. */
const COMPONENTS = new Map(Object.entries({
  weights: { key: "model.path", advice: "take a smaller model, or a file with smaller weights such as Q4_K" },
  kv: { key: "training.ctx", advice: `${SEQUENCES}, or set model.kv = "f16"` },
  sampler: { key: "training.ctx", advice: SEQUENCES },
  activations: {
    key: "training.ctx",
    advice: "set training.gradient_checkpointing, or lower training.micro_batch_tokens, and training.ctx, " +
      "which bounds it from below",
  },
  loss: {
    key: "training.ctx",
    advice: "lower training.loss_chunk_rows and training.micro_batch_tokens",
  },
  adapters: ADAPTER,
  optimizer: ADAPTER,
  host_checkpoint: ADAPTER,
  host_textures: { key: "training.ctx", advice: `take a smaller model, ${SEQUENCES}` },
}));

/** The key of the configuration on which the size of a component depends most. */
export function keyOfComponent(name: string): string {
  return COMPONENTS.get(name)?.key ?? "training.ctx";
}

/** Advice for a component, as sentences after others; empty for a component without any. */
function adviceFor(name: string): string {
  const known = COMPONENTS.get(name);
  return known ? `. For ${name}: ${known.advice}` : "";
}

/** The number of components with advice in a message, the largest first. */
const ADVISED_POSTS = 2;

/**
 * The `out_of_memory` error with all components by size, and advice for the largest.
 *
 * @param what The operation that failed, as in "Cannot <what>".
 * @param bytes Bytes by component, including the allocation that failed.
 */
export function outOfMemory(what: string, bytes: Readonly<Record<string, number>>): ServiceError {
  const posts = Object.entries(bytes).filter(([, size]) => size > 0).sort(([, a], [, b]) => b - a);
  const listed = posts.map(([name, size]) => `${name} ${(size / 2 ** 30).toFixed(2)} GiB`).join(", ");
  const advice = posts.slice(0, ADVISED_POSTS).map(([name]) => adviceFor(name)).join("");
  return new ServiceError(
    "out_of_memory",
    `Cannot ${what}: the device has no more memory${listed && ` (${listed})`}${advice}`,
    { bytes: { ...bytes } },
  );
}

/** The number of tensors in a message, the largest first. */
const NAMED_TENSORS = 3;

/**
 * Refuses a plan that the device cannot hold, before anything is loaded.
 *
 * @throws {ServiceError} `out_of_memory` with the tensors that the device cannot bind; or with the largest components,
 * if the plan has more bytes than the device's memory and that size is known.
 */
export function refuseUnfit(
  what: string,
  { bytes, unbindable }: Pick<MemoryPlan, "bytes" | "unbindable">,
  { vram_bytes }: Pick<DeviceFacts, "vram_bytes">,
): void {
  const problem = unbindableProblem(unbindable);
  if (problem !== null) {
    throw new ServiceError("out_of_memory", `Cannot ${what}: ${problem}`, { unbindable });
  }
  const total = Object.values(bytes).reduce((sum, size) => sum + size, 0);
  if (vram_bytes !== null && total > vram_bytes) throw outOfMemory(what, bytes);
}

/** The message about tensors above the device's binding limit, with advice; null if there are none. */
export function unbindableProblem(unbindable: MemoryPlan["unbindable"]): string | null {
  if (unbindable.length === 0) return null;
  const by_name = new Map(unbindable.map((tensor) => [tensor.name, tensor]));
  const largest = [...by_name.values()].sort((a, b) => b.size_bytes - a.size_bytes);
  const listed = largest.slice(0, NAMED_TENSORS).map(({ name, size_bytes }) =>
    `${name} takes ${formatBytes(size_bytes)}`
  );
  if (largest.length > NAMED_TENSORS) listed.push(`${largest.length - NAMED_TENSORS} others more than that`);
  const components = [...new Set(largest.map(({ component }) => component))];
  const advice = components.map(adviceFor).join("");
  const limit = formatBytes(largest[0]!.limit_bytes);
  return `the device binds at most ${limit} in one piece, and ${listed.join(", ")}${advice}`;
}

/** Adds advice to the error of an allocation that the device refused. Other errors are returned unchanged. */
export function withAdvice(error: unknown): unknown {
  if (!(error instanceof ServiceError) || error.code !== "out_of_memory") return error;
  const { component, advised } = error.details;
  const known = typeof component === "string" ? COMPONENTS.get(component) : undefined;
  if (!known || advised === true) return error;
  const message = `${error.message}; ${known.advice}`;
  return new ServiceError(error.code, message, { ...error.details, advised: true }, { cause: error });
}
