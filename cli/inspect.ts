/** `svc inspect`: describes a model file or an adapter. */

import type { Command } from "commander";
import { doing, ServiceError } from "../core/errors.ts";
import { LORA_TARGETS, type LoraTarget } from "../core/lora_targets.ts";
import { formatBytes, jsonText } from "../core/text.ts";
import { readAdapter } from "../trainer/formats/adapter.ts";
import { isDecodedType } from "../trainer/formats/ggml_types.ts";
import { type GgufFile, openGguf } from "../trainer/formats/gguf.ts";
import { readTrainableShape } from "../trainer/model/architectures/registry.ts";
import { linearShape } from "../trainer/model/model_shape.ts";
import { ChatTemplate } from "../trainer/tokenizer/chat_template.ts";
import { Renderer } from "../trainer/tokenizer/renderer.ts";
import { probeTemplate, type TemplateProbe } from "../trainer/tokenizer/template_probe.ts";
import { readTokenizer } from "../trainer/tokenizer/read_tokenizer.ts";
import type { CliContext } from "./context.ts";
import { printRows, type Row } from "./terminal.ts";

/** The rank for which an adapter's size is printed. */
const SHOWN_RANK = 8;

export interface ModelInspection {
  kind: "model";
  path: string;
  size_bytes: number;
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
  /** For an adapter of rank 8 on all of them. */
  lora_parameters: number;
  problems: string[];
}

export interface AdapterInspection {
  kind: "adapter";
  path: string;
  size_bytes: number;
  architecture: string;
  rank: number;
  alpha: number;
  layers: number;
  lora_targets: LoraTarget[];
  parameters: number;
}

function countParameters(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

function tensorTypes(file: GgufFile): ModelInspection["tensor_types"] {
  const types: ModelInspection["tensor_types"] = {};
  for (const { type, bytes } of file.tensors.values()) {
    const entry = types[type] ??= { tensors: 0, bytes: 0, readable: isDecodedType(type) };
    entry.tensors++;
    entry.bytes += bytes;
  }
  return types;
}

/** Whether a run could train the model, and the parameters of an adapter on all targets. */
function loraFacts(
  file: GgufFile,
  tokenizer_problem: string | null,
): Pick<ModelInspection, "not_trainable" | "lora_targets" | "lora_parameters"> {
  const problems = tokenizer_problem === null ? [] : [tokenizer_problem];
  const shape = attempt(problems, () => readTrainableShape(file));
  if (!shape || problems.length > 0) {
    return { not_trainable: problems.at(-1)!, lora_targets: [], lora_parameters: 0 };
  }
  const sides = LORA_TARGETS.map((target) => linearShape(shape, target)).reduce(
    (sum, { in_width, out_width }) => sum + in_width + out_width,
    0,
  );
  return {
    not_trainable: null,
    lora_targets: [...LORA_TARGETS],
    lora_parameters: SHOWN_RANK * shape.layers.length * sides,
  };
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

async function sizeOf(path: string): Promise<number> {
  return (await doing(`read ${path}`, () => Deno.stat(path))).size;
}

function inspectModel(file: GgufFile, size_bytes: number): ModelInspection {
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
  const tensors = [...file.tensors.values()];
  return {
    kind: "model",
    path: file.path,
    size_bytes,
    gguf_version: file.version,
    architecture,
    name: file.metadata.has("general.name") ? file.getString("general.name") : null,
    parameters: tensors.reduce((sum, { shape }) => sum + countParameters(shape), 0),
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
    ...loraFacts(file, tokenizer ? null : problems[0] ?? `Cannot read ${file.path}: it holds no tokenizer`),
    problems,
  };
}

async function inspectAdapter(path: string): Promise<AdapterInspection> {
  const { architecture, rank, alpha, layers, targets, tensors } = await readAdapter(path);
  const parameters = [...tensors.values()].reduce((sum, { a, b }) => sum + a.length + b.length, 0);
  const size_bytes = await sizeOf(path);
  return {
    kind: "adapter",
    path,
    size_bytes,
    architecture,
    rank,
    alpha,
    layers,
    lora_targets: targets,
    parameters,
  };
}

/**
 * Describes a GGUF file; does not read a model's tensors.
 *
 * @throws {ServiceError} `path_not_found` or `format_invalid`.
 */
export async function inspectFile(path: string): Promise<ModelInspection | AdapterInspection> {
  {
    using file = await openGguf(path);
    if (file.getString("general.type", "model") !== "adapter") return inspectModel(file, await sizeOf(path));
  }
  return await inspectAdapter(path);
}

const yesNo = (value: boolean | null) => value === null ? "not rendered" : value ? "yes" : "no";
const count = (value: number) => value.toLocaleString("en-US");

function probeRows(probe: TemplateProbe): Row[] {
  return [
    ["  prefix stable", yesNo(probe.prefix_stable)],
    ["  keeps thinking", yesNo(probe.keeps_thinking)],
    ["  begin tokens", String(probe.bos_count)],
    ["  tool calls", `${probe.tool_call_format}, round trip ${yesNo(probe.tool_call_round_trip)}`],
    ["  ends a turn", probe.turn_end ?? "with no token: the model cannot learn to stop"],
    ...probe.problems.map((problem): Row => ["  problem", problem]),
  ];
}

function targetRows({ not_trainable, lora_targets, lora_parameters }: ModelInspection): Row[] {
  if (not_trainable !== null) {
    return [["LoRA targets", `none: this model cannot be trained. ${not_trainable}`]];
  }
  return [
    ["LoRA targets", lora_targets.join(", ")],
    ["", `${count(lora_parameters)} parameters at rank ${SHOWN_RANK} on all of them`],
  ];
}

function modelRows(found: ModelInspection): Row[] {
  const types = Object.entries(found.tensor_types).map(([type, { tensors, bytes, readable }]) =>
    `${tensors} ${type} (${formatBytes(bytes)}${readable ? "" : ", not readable by this build"})`
  );
  return [
    ["file", `${found.path} (${formatBytes(found.size_bytes)}, GGUF version ${found.gguf_version})`],
    ["architecture", `${found.architecture}${found.name ? ` (${found.name})` : ""}`],
    ["parameters", count(found.parameters)],
    ["layers", `${found.layers}, width ${found.width ?? "unknown"}`],
    ["context", found.context_length === null ? "unknown" : count(found.context_length)],
    ["vocabulary", found.vocabulary === null ? "none" : `${count(found.vocabulary)} (${found.tokenizer})`],
    ["tensors", types.join(", ") || "none"],
    ["chat template", found.chat_template ? "yes" : "no: set model.chat_template"],
    ...(found.template_probe ? probeRows(found.template_probe) : []),
    ...targetRows(found),
    ...found.problems.map((problem): Row => ["problem", problem]),
  ];
}

function adapterRows(found: AdapterInspection): Row[] {
  return [
    ["file", `${found.path} (${formatBytes(found.size_bytes)}, LoRA adapter)`],
    ["architecture", `${found.architecture}, ${found.layers} layers`],
    ["rank", `${found.rank}, alpha ${found.alpha}`],
    ["LoRA targets", found.lora_targets.join(", ")],
    ["parameters", count(found.parameters)],
  ];
}

/** Adds the command. */
export function addInspectCommand(program: Command, { terminal }: CliContext): void {
  program.command("inspect").description("describe a model file or an adapter")
    .argument("[file]", "GGUF file of a model or an adapter")
    .option("--model <file>", "the same, for a model")
    .option("--adapter <file>", "the same, for an adapter")
    .option("--json", "print the facts as JSON")
    .action(async (file: string | undefined, options: { model?: string; adapter?: string; json?: true }) => {
      const paths = [file, options.model, options.adapter].filter((path) => path !== undefined);
      if (paths.length === 0) {
        throw new ServiceError("config_invalid", "Cannot inspect nothing: name a GGUF file");
      }
      for (const [i, path] of paths.entries()) {
        const found = await inspectFile(path);
        if (options.json) {
          terminal.line(jsonText(found, 2));
          continue;
        }
        if (i > 0) terminal.line("");
        printRows(terminal, found.kind === "model" ? modelRows(found) : adapterRows(found));
      }
    });
}
