/** `[training]` */

import { z } from "zod";
import { ALGORITHM_KEYS, algorithmsText, usersText } from "../algorithms.ts";
import {
  BATCH_SEQUENCES,
  DEFAULT_CTX_CAP,
  DEFAULT_EPOCHS,
  LOSS_CHUNK,
  MIN_MICRO_BATCH_TOKENS,
} from "./defaults.ts";
import { integer, number, numberText } from "./fields.ts";

const ENTRIES = Object.entries(ALGORITHM_KEYS);

const LEARNING_RATES = ENTRIES.map(([name, { learning_rate }]) => `${name} ${numberText(learning_rate)}`);

/** Where a micro-batch has to hold several full-length sequences. */
const MICRO_BATCHES = ENTRIES.filter(([, { micro_batch }]) => micro_batch.sequences > 1)
  .map(([name, { micro_batch }]) => `${name}: ${micro_batch.sequences} · ctx`);

export const trainingSchema = z.strictObject({
  ctx: integer("training.ctx").optional().meta({
    description: "Longest sequence in tokens.",
    rule: `the smaller of ${DEFAULT_CTX_CAP} and the model's context length`,
    example: DEFAULT_CTX_CAP,
  }),
  lr: number("training.lr").optional().meta({
    description: "Learning rate.",
    rule: LEARNING_RATES.join(", "),
  }),
  epochs: integer("training.epochs").optional().meta({
    description: `Passes over the data in ${usersText("training.epochs")}.`,
    rule: `${DEFAULT_EPOCHS}; no limit where updates or max_minutes is given`,
    example: 3,
  }),
  updates: integer("training.updates").optional().meta({
    description: `Most updates of ${usersText("training.updates")}.`,
    rule: "no limit: epochs and max_minutes decide",
    example: 1000,
  }),
  max_minutes: number("training.max_minutes").optional().meta({
    description: `Most minutes of ${
      usersText("training.max_minutes")
    }; the run ends after the update in progress.`,
    rule: "no limit: epochs and updates decide",
    example: 60,
  }),
  batch_tokens: integer("training.batch_tokens").optional().meta({
    description: `Tokens of one optimiser step of ${usersText("training.batch_tokens")}.`,
    rule: `${BATCH_SEQUENCES} · ctx; steps of ${
      algorithmsText(({ has_rollouts }) => has_rollouts)
    } are made of groups`,
    example: BATCH_SEQUENCES * DEFAULT_CTX_CAP,
  }),
  micro_batch_tokens: integer("training.micro_batch_tokens").optional().meta({
    description: "Most tokens of one forward and backward pass in training.",
    rule: `the larger of ctx (${MICRO_BATCHES.join(", ")}) and ${MIN_MICRO_BATCH_TOKENS}`,
    example: 2 * DEFAULT_CTX_CAP,
  }),
  loss_chunk_rows: integer("training.loss_chunk_rows").optional().meta({
    description: "Rows whose logits the loss computes at once.",
    rule:
      `as many as give 2^${
        Math.log2(LOSS_CHUNK.logits)
      } logits, from ${LOSS_CHUNK.min_rows} to ${LOSS_CHUNK.max_rows}, ` +
      "within the device's binding limit",
    example: 512,
  }),
  offload_optimizer: z.boolean().default(false).meta({
    description: "Keep the optimiser's moments in the host's memory.",
  }),
  lr_scheduler: z.enum(["constant", "linear", "cosine"]).default("constant").meta({
    description:
      "How the learning rate falls after the warm-up: linear and cosine reach zero one step after the last; constant does not fall.",
  }),
  warmup_steps: integer("training.warmup_steps").default(0).meta({
    description:
      "Steps over which the learning rate rises linearly: the first has lr / warmup_steps, the last lr.",
  }),
  weight_decay: number("training.weight_decay").default(0).meta({ description: "AdamW's decoupled decay." }),
  beta1: number("training.beta1").default(0.9).meta({ description: "AdamW's decay of the first moment." }),
  beta2: number("training.beta2").default(0.999).meta({ description: "AdamW's decay of the second moment." }),
  eps: number("training.eps").default(1e-8).meta({ description: "AdamW's term added to the denominator." }),
  max_grad_norm: number("training.max_grad_norm").default(1).meta({
    description: "Gradients are scaled down to this global norm; 0: never.",
  }),
  gradient_checkpointing: z.boolean().optional().meta({
    description: "Compute activations a second time instead of keeping them.",
    rule: "false",
    example: false,
  }),
  max_gpu_duty_cycle: number("training.max_gpu_duty_cycle").default(1).meta({
    description: "Share of the time that the device may be busy.",
  }),
});
