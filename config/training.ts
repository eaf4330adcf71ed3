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
  epochs: integer("training.epochs").default(1).meta({
    description: "Times that sft and preference go through the data.",
  }),
  updates: integer("training.updates").optional().meta({
    description: "Updates after which sft and preference end.",
    rule: "no limit: epochs and max_minutes decide",
  }),
  max_minutes: number("training.max_minutes").optional().meta({
    description: "Minutes after which sft and preference end, at the next update.",
    rule: "no limit: epochs and updates decide",
  }),
  batch_tokens: integer("training.batch_tokens").optional().meta({
    description: "Tokens of one optimiser step of sft and preference.",
    rule: "4 · ctx; agent_grpo has none: its steps are whole groups",
  }),
  micro_batch_tokens: integer("training.micro_batch_tokens").optional().meta({
    description: "Most tokens that go through the model at once in training.",
    rule: "the larger of ctx (preference: twice) and 2048",
  }),
  loss_chunk_rows: integer("training.loss_chunk_rows").optional().meta({
    description: "Rows that go through the vocabulary at once in the loss.",
    rule: "as many as make 2^26 logits, from 64 to 1024, and no more than the device binds",
  }),
  offload_optimizer: z.boolean().default(false).meta({
    description: "Keep the optimiser's moments in the host's memory.",
  }),
  lr_scheduler: z.enum(["constant", "linear", "cosine"]).default("constant").meta({
    description:
      "How the learning rate falls after the warm-up: towards zero, which the step after the last would have, or not at all (constant).",
  }),
  warmup_steps: integer("training.warmup_steps").default(0).meta({
    description:
      "Steps over which the learning rate rises linearly: the first has lr / warmup_steps, the last lr.",
  }),
  weight_decay: number("training.weight_decay").default(0).meta({ description: "AdamW's decoupled decay." }),
  beta1: number("training.beta1").default(0.9).meta({ description: "AdamW's decay of the first moment." }),
  beta2: number("training.beta2").default(0.999).meta({ description: "AdamW's decay of the second moment." }),
  eps: number("training.eps").default(1e-8).meta({ description: "AdamW's addend of the denominator." }),
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
