/** `[training]` */

import { z } from "zod";
import { integer, number } from "./fields.ts";

export const trainingSchema = z.strictObject({
  ctx: integer("training.ctx").optional().meta({
    description: "Longest sequence in tokens.",
    rule: "the smaller of 4096 and the model's context length",
  }),
  lr: number("training.lr").optional().meta({
    description: "Learning rate.",
    rule: "sft 2e-4, preference 5e-6, agent_grpo 2e-5",
  }),
  epochs: integer("training.epochs").optional().meta({
    description: "Passes over the data in sft and preference.",
    rule: "1; no limit where updates or max_minutes is given",
  }),
  updates: integer("training.updates").optional().meta({
    description: "Most updates of sft and preference.",
    rule: "no limit: epochs and max_minutes decide",
  }),
  max_minutes: number("training.max_minutes").optional().meta({
    description: "Most minutes of sft and preference; the run ends after the update in progress.",
    rule: "no limit: epochs and updates decide",
  }),
  batch_tokens: integer("training.batch_tokens").optional().meta({
    description: "Tokens of one optimiser step of sft and preference.",
    rule: "4 · ctx; agent_grpo does not use it: its steps are made of groups",
  }),
  micro_batch_tokens: integer("training.micro_batch_tokens").optional().meta({
    description: "Most tokens of one forward and backward pass in training.",
    rule: "the larger of ctx (preference: twice) and 2048",
  }),
  loss_chunk_rows: integer("training.loss_chunk_rows").optional().meta({
    description: "Rows whose logits the loss computes at once.",
    rule: "as many as give 2^26 logits, from 64 to 1024, within the device's binding limit",
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
  }),
  max_gpu_duty_cycle: number("training.max_gpu_duty_cycle").default(1).meta({
    description: "Share of the time that the device may be busy.",
  }),
});
