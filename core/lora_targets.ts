/** The linear layers that an adapter can act on, with their names in configurations, GGUF files and PEFT folders. */

/** Names in configurations and Hugging Face models, in the order of every listing. */
export const LORA_TARGETS = [
  "q_proj",
  "k_proj",
  "v_proj",
  "o_proj",
  "gate_proj",
  "up_proj",
  "down_proj",
] as const;

/** The name of a linear layer that can have an adapter. */
export type LoraTarget = typeof LORA_TARGETS[number];

/** The part of a GGUF tensor's name between `blk.<layer>.` and `.weight`. */
export const GGUF_NAMES: Readonly<Record<LoraTarget, string>> = {
  q_proj: "attn_q",
  k_proj: "attn_k",
  v_proj: "attn_v",
  o_proj: "attn_output",
  gate_proj: "ffn_gate",
  up_proj: "ffn_up",
  down_proj: "ffn_down",
};

/** The inverse of {@link GGUF_NAMES}; null for a tensor that cannot have an adapter. */
export function targetOfGgufName(name: string): LoraTarget | null {
  return LORA_TARGETS.find((target) => GGUF_NAMES[target] === name) ?? null;
}

/** The module path within a Hugging Face layer: `q_proj` is `self_attn.q_proj`. */
export function peftModule(target: LoraTarget): string {
  return `${GGUF_NAMES[target].startsWith("attn") ? "self_attn" : "mlp"}.${target}`;
}
