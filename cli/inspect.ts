/** `svc inspect`: describes a model file or an adapter. */

import type { Command } from "commander";
import { doing, ServiceError } from "../core/errors.ts";
import type { LoraTarget } from "../core/lora_targets.ts";
import { formatBytes, jsonText } from "../core/text.ts";
import { readAdapter } from "../trainer/formats/adapter.ts";
import { type GgufFile, openGguf } from "../trainer/formats/gguf.ts";
import { type GgufInspection, inspectGguf, isAdapter } from "../trainer/engine/inspect_model.ts";
import type { TemplateProbe } from "../trainer/tokenizer/template_probe.ts";
import type { CliContext } from "./context.ts";
import { printRows, type Row } from "./terminal.ts";

/** The rank for which an adapter's size is printed. */
const SHOWN_RANK = 8;

export interface ModelInspection extends GgufInspection {
  kind: "model";
  path: string;
  size_bytes: number;
  /** For an adapter of rank 8 on all of them. */
  lora_parameters: number;
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

async function sizeOf(path: string): Promise<number> {
  return (await doing(`read ${path}`, () => Deno.stat(path))).size;
}

function inspectModel(file: GgufFile, size_bytes: number): ModelInspection {
  const { inspection, rank_parameters } = inspectGguf(file);
  const each_rank = Object.values(rank_parameters).reduce((sum, parameters) => sum + parameters, 0);
  return {
    kind: "model",
    path: file.path,
    size_bytes,
    ...inspection,
    lora_parameters: SHOWN_RANK * each_rank,
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
    if (!isAdapter(file)) return inspectModel(file, await sizeOf(path));
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
        throw new ServiceError("config_invalid", "Cannot inspect: no file is named; name a GGUF file");
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
