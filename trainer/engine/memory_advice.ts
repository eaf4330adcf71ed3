/** What takes the device's memory, and which keys make it smaller. */

import { ServiceError } from "../../core/errors.ts";

const SEQUENCES =
  "lower training.ctx, and with rollouts agent.concurrent_rollouts or agent.max_trajectory_tokens";
const ADAPTER = "lower lora.rank, or name fewer lora.targets";

/** By the component under which memory is allocated. */
const ADVICE: Readonly<Record<string, string>> = {
  weights: "take a smaller model, or a file with smaller weights such as Q4_K",
  kv: `${SEQUENCES}, or set model.kv = "f16"`,
  sampler: SEQUENCES,
  activations: "lower training.micro_batch_tokens, and training.ctx, which bounds it from below",
  loss: "lower training.loss_chunk_rows",
  adapters: ADAPTER,
  optimizer: ADAPTER,
};

/** The posts that are named, the largest first. */
const NAMED_POSTS = 2;

/**
 * The error of a device without memory: the largest posts, and for each how to make it smaller.
 *
 * @param bytes Allocated so far, by component, with what was asked for last.
 */
export function outOfMemory(what: string, bytes: Readonly<Record<string, number>>): ServiceError {
  const posts = Object.entries(bytes).filter(([, size]) => size > 0).sort(([, a], [, b]) => b - a);
  const listed = posts.map(([name, size]) => `${name} ${(size / 2 ** 30).toFixed(2)} GiB`).join(", ");
  const advice = posts.slice(0, NAMED_POSTS).flatMap(([name]) =>
    name in ADVICE ? `For ${name}: ${ADVICE[name]}` : []
  );
  return new ServiceError(
    "out_of_memory",
    `Cannot ${what}: the device has no more memory${listed && ` (${listed})`}${
      advice.map((a) => `. ${a}`).join("")
    }`,
    { bytes: { ...bytes } },
  );
}

/** An allocation that the device refused, with the keys that make it smaller; any other error as it is. */
export function withAdvice(error: unknown): unknown {
  if (!(error instanceof ServiceError) || error.code !== "out_of_memory") return error;
  const { component, advised } = error.details;
  if (typeof component !== "string" || advised === true || !Object.hasOwn(ADVICE, component)) return error;
  const advice = ADVICE[component]!, message = `${error.message}; ${advice}`;
  return new ServiceError(error.code, message, { ...error.details, advised: true }, { cause: error });
}
