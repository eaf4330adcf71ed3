/** The state of decoding on the device, so that many steps run without the host. */

import { assert } from "../../core/errors.ts";
import { defineKernel, type Operands } from "../kernel.ts";
import type { Recorder } from "../recorder.ts";
import { ceilDiv, expectShape } from "../shape.ts";
import advanceWgsl from "./advance.wgsl" with { type: "text" };

/** Marks an ended row, a token that was not sampled, and an unused entry in a list of stop tokens. */
export const NONE = 0xffffffff;

/** The most stop tokens of a row; unused entries are {@link NONE}. */
export const MAX_STOP_TOKENS = 8;

const THREADS = 64;

const advanceKernel = defineKernel({
  name: "advance",
  wgsl: advanceWgsl,
  params: { rows: "u32", step: "u32", steps: "u32" },
  inputs: ["token", "logprob", "stop_tokens"],
  outputs: ["position", "token_position", "remaining", "slots", "out"],
});

/**
 * Records the state after a sampled token: the token is written to `out`, its position to `token_position`, and the
 * next one's to `position`. A row ends (its slot becomes {@link NONE}) when the token is a stop token or `remaining` is
 * used up. An ended row keeps its state and writes {@link NONE}.
 *
 * @param tensors token, position, token_position, remaining, slots `[B] u32`; logprob `[B] f32`; stop_tokens `[B, 8]
 * u32`; out `[2, K, B] u32`: tokens, and the bits of their log-probabilities.
 * @param step The index among the K steps of `out`, from 0.
 * @throws {ShapeError} When the shapes do not match.
 */
export function advance(recorder: Recorder, tensors: Operands<typeof advanceKernel>, step: number): void {
  const [rows] = expectShape(tensors.token, "token", 1);
  for (const name of ["logprob", "position", "token_position", "remaining", "slots"] as const) {
    expectShape(tensors[name], name, [rows]);
  }
  expectShape(tensors.stop_tokens, "stop_tokens", [rows, MAX_STOP_TOKENS]);
  const [, steps] = expectShape(tensors.out, "out", 3);
  expectShape(tensors.out, "out", [2, steps, rows]);
  assert(step < steps, `step ${step} is one of ${steps}`);
  recorder.dispatch(advanceKernel, { rows, step, steps }, tensors, [ceilDiv(rows, THREADS)]);
}

/** The tokens that a row sampled in K steps, from the bytes of `out`, and their log-probabilities. */
export function sampledTokens(
  out: ArrayBuffer,
  { row, rows, steps }: { row: number; rows: number; steps: number },
): { tokens: number[]; logprobs: number[] } {
  const words = new Uint32Array(out), floats = new Float32Array(out);
  const tokens: number[] = [], logprobs: number[] = [];
  for (let step = 0; step < steps && words[step * rows + row] !== NONE; step++) {
    tokens.push(words[step * rows + row]!);
    logprobs.push(floats[(steps + step) * rows + row]!);
  }
  return { tokens, logprobs };
}
