/** Shared parts of optimiser steps. */

import type { ResolvedTraining } from "../../config/check/derive.ts";
import { ServiceError } from "../../core/errors.ts";
import type { OptimizerRequest } from "../../trainer/protocol/protocol.ts";

/** @throws {ServiceError} `loss_not_finite` when a step was skipped. */
export function refuseSkipped(skipped: boolean, update: number): void {
  if (!skipped) return;
  throw new ServiceError(
    "loss_not_finite",
    `Cannot go on after update ${update}: its loss or gradient is not finite; lower training.lr or set ` +
      'model.compute = "f32"',
  );
}

export function optimizerRequest(training: ResolvedTraining, learning_rate: number): OptimizerRequest {
  const { beta1, beta2, eps, weight_decay, max_grad_norm } = training;
  return { learning_rate, beta1, beta2, eps, weight_decay, max_grad_norm };
}

/** A rate as a metric; empty when no time has passed. */
export function rate(name: string, count: number, seconds: number): Record<string, number> {
  return seconds > 0 ? { [name]: count / seconds } : {};
}
