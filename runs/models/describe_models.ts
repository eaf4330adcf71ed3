/** The job that describes model files from their headers. */

import { type ErrorRecord, errorRecord, ServiceError } from "../../core/errors.ts";
import type { CheckedFile } from "../../core/regular_file.ts";
import type { LoraTarget } from "../../core/lora_targets.ts";
import { countParameters, openGguf } from "../../trainer/formats/gguf.ts";
import { type GgufInspection, inspectGguf, isAdapter } from "../../trainer/engine/inspect_model.ts";

export interface ModelsRequest {
  files: CheckedFile[];
}

/** The facts of a file, or why there are none. */
export type ModelDescription =
  | {
    kind: "model";
    inspection: GgufInspection;
    rank_parameters: Partial<Record<LoraTarget, number>>;
  }
  | { kind: "adapter"; architecture: string; parameters: number; tensor_types: string[] }
  | { kind: null; error: ErrorRecord };

/** Descriptions in the order of the files. A file that cannot be read has its error. */
export async function describeModels({ files }: ModelsRequest): Promise<ModelDescription[]> {
  const described: ModelDescription[] = [];
  for (const file of files) described.push(await describeModel(file));
  return described;
}

async function describeModel(file: CheckedFile): Promise<ModelDescription> {
  try {
    using gguf = await openGguf(file);
    if (!isAdapter(gguf)) return { kind: "model", ...inspectGguf(gguf) };
    const types = new Set([...gguf.tensors.values()].map(({ type }) => type));
    return {
      kind: "adapter",
      architecture: gguf.getString("general.architecture"),
      parameters: countParameters(gguf),
      tensor_types: [...types],
    };
  } catch (error) {
    if (error instanceof ServiceError) return { kind: null, error: errorRecord(error) };
    throw error;
  }
}
