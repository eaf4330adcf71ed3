/** Describes a model file from its header, for commands and for the server. */

import { ServiceError } from "../../core/errors.ts";
import { LORA_TARGETS, type LoraTarget } from "../../core/lora_targets.ts";
import { isDecodedType } from "../formats/ggml_types.ts";
import { countParameters, type GgufFile } from "../formats/gguf.ts";
import { readTrainableShape } from "../model/architectures/registry.ts";
import { linearShape } from "../model/model_shape.ts";
import { ChatTemplate } from "../tokenizer/chat_template.ts";
import { readTokenizer } from "../tokenizer/read_tokenizer.ts";
import { Renderer } from "../tokenizer/renderer.ts";
import { probeTemplate, type TemplateProbe } from "../tokenizer/template_probe.ts";

/** The facts of a GGUF file. */
export interface GgufInspection {
  gguf_version: number;
  architecture: string;
  name: string | null;
  parameters: number;
  layers: number;
  width: number | null;
  context_length: number | null;
  vocabulary: number | null;
  tokenizer: string | null;
  tensor_types: Record<string, { tensors: number; bytes: number; readable: boolean }>;
  chat_template: boolean;
  /** Null without a template, or when the tokenizer cannot be read. */
  template_probe: TemplateProbe | null;
  /** Why this build cannot train the model; null when it can. */
  not_trainable: string | null;
  /** Empty when it cannot be trained. */
  lora_targets: LoraTarget[];
  problems: string[];
}

/** A model's facts, and the size of adapters for it. */
export interface InspectedModel {
  inspection: GgufInspection;
  /** The parameters of an adapter of rank 1 on each target; empty when the model cannot be trained. */
  rank_parameters: Partial<Record<LoraTarget, number>>;
}

/** Whether a GGUF file is an adapter; any other is a model. @throws {ServiceError} `format_invalid`. */
export function isAdapter(file: GgufFile): boolean {
  return file.getString("general.type", "model") === "adapter";
}

/**
 * The facts of a model. A part of the file that cannot be read is a problem.
 *
 * @throws {ServiceError} `format_invalid`.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { openGguf } from "../formats/gguf.ts";
 *
 * using file = await openGguf("fixtures/models/tiny-agent-f16.gguf");
 * const { inspection, rank_parameters } = inspectGguf(file);
 * assert.deepEqual([inspection.architecture, inspection.layers, inspection.not_trainable], ["qwen3", 4, null]);
 * // In each layer the queries are 512 wide, and the hidden states 256.
 * assert.equal(rank_parameters.q_proj, 4 * (256 + 512));
 * ```
 */
export function inspectGguf(file: GgufFile): InspectedModel {
  const architecture = file.getString("general.architecture");
  const number = (key: string) => file.metadata.has(key) ? file.getUint(key) : null;
  const layers = number(`${architecture}.block_count`) ?? 0;
  const problems: string[] = [];
  const chat_template = file.metadata.has("tokenizer.chat_template");
  const has_tokenizer = file.metadata.has("tokenizer.ggml.tokens");
  const tokenizer = has_tokenizer ? attempt(problems, () => readTokenizer(file)) : null;
  const template_probe = chat_template && tokenizer
    ? attempt(problems, () => probeTemplate(new Renderer(tokenizer, ChatTemplate.fromGguf(file)), {}))
    : null;
  const tokenizer_problem = tokenizer
    ? null
    : problems[0] ?? `Cannot read ${file.path}: it holds no tokenizer`;
  const { rank_parameters, not_trainable } = loraFacts(file, tokenizer_problem);
  const inspection: GgufInspection = {
    gguf_version: file.version,
    architecture,
    name: file.metadata.has("general.name") ? file.getString("general.name") : null,
    parameters: countParameters(file),
    layers,
    width: number(`${architecture}.embedding_length`),
    context_length: number(`${architecture}.context_length`),
    vocabulary: has_tokenizer ? file.getStrings("tokenizer.ggml.tokens").length : null,
    tokenizer: has_tokenizer
      ? `${file.getString("tokenizer.ggml.model", "unknown")} ${file.getString("tokenizer.ggml.pre", "")}`
        .trim()
      : null,
    tensor_types: tensorTypes(file),
    chat_template,
    template_probe,
    not_trainable,
    lora_targets: Object.keys(rank_parameters) as LoraTarget[],
    problems,
  };
  return { inspection, rank_parameters };
}

function tensorTypes(file: GgufFile): GgufInspection["tensor_types"] {
  const types: GgufInspection["tensor_types"] = {};
  for (const { type, bytes } of file.tensors.values()) {
    const entry = types[type] ??= { tensors: 0, bytes: 0, readable: isDecodedType(type) };
    entry.tensors++;
    entry.bytes += bytes;
  }
  return types;
}

/** Whether a run could train the model, and the sizes of an adapter on its targets. */
function loraFacts(
  file: GgufFile,
  tokenizer_problem: string | null,
): { not_trainable: string | null; rank_parameters: InspectedModel["rank_parameters"] } {
  const problems = tokenizer_problem === null ? [] : [tokenizer_problem];
  const shape = attempt(problems, () => readTrainableShape(file));
  if (!shape || problems.length > 0) return { not_trainable: problems.at(-1)!, rank_parameters: {} };
  const sizes = LORA_TARGETS.map((target) => {
    const { in_width, out_width } = linearShape(shape, target);
    return [target, shape.layers.length * (in_width + out_width)] as const;
  });
  return { not_trainable: null, rank_parameters: Object.fromEntries(sizes) };
}

/** Runs a part of the inspection. Its failure is a finding about the file. */
function attempt<T>(problems: string[], run: () => T): T | null {
  try {
    return run();
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    problems.push(error.message);
    return null;
  }
}
