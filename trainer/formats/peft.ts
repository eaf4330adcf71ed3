/** Adapters as PEFT folders: `adapter_config.json` and `adapter_model.safetensors`. */

import { dirname } from "node:path";
import { assert, doing, ServiceError } from "../../core/errors.ts";
import { ignoreMissing, makeFolder, partialPath, replacedPath, writeFileAtomic } from "../../core/files.ts";
import { isJsonObject } from "../../core/json.ts";
import { LORA_TARGETS, type LoraTarget, peftModule } from "../../core/lora_targets.ts";
import { openPartial } from "../../core/partial.ts";
import { assertReadBack } from "./adapter.ts";
import {
  assembleLora,
  assertCompleteAdapter,
  loraDifference,
  type LoraFactor,
  loraOrder,
  type LoraTensors,
} from "./lora.ts";
import { formatError } from "./model_file.ts";
import {
  floatsOf,
  floatTensor,
  readSafetensors,
  type SafetensorsTensor,
  writeSafetensors,
} from "./safetensors.ts";

const CONFIG = "adapter_config.json";
const WEIGHTS = "adapter_model.safetensors";
const PREFIX = "base_model.model.model.layers";
const TENSOR_NAME = /^base_model\.model\.model\.layers\.(\d{1,5})\.([a-z_]+\.[a-z_]+)\.lora_([AB])\.weight$/;

/**
 * Projections whose rows have another order in GGUF than in Hugging Face files, with their numbers of heads.
 */
export type PermutedHeads = Partial<Record<LoraTarget, number>>;

/** The temporary paths of a new PEFT folder until it is complete, and of the folder that it replaces. */
export function besidePeft(directory: string): [partial: string, replaced: string] {
  return [partialPath(directory), replacedPath(directory)];
}

/**
 * Writes an adapter as a PEFT folder. The folder is completed beside its final place, read back and compared, and then
 * replaces an existing one.
 *
 * @param options base_model: see `modelName`; PEFT loads the base model from it unless the user names another. permuted:
 * absent where no rows differ.
 * @throws {ServiceError} `conflict` while another process writes the same folder.
 */
export async function writePeft(
  directory: string,
  lora: LoraTensors,
  { base_model, permuted = {} }: { base_model: string; permuted?: PermutedHeads },
): Promise<void> {
  assertCompleteAdapter(lora);
  const [partial, replaced] = besidePeft(directory);
  await makeFolder(dirname(directory));
  const claim = () => openPartial(partial, { kind: "folder", final: directory });
  using _lock = await doing(`write ${directory}`, claim);
  try {
    await writePeftFiles(partial, lora, { base_model, permuted });
    assertReadBack(directory, loraDifference(lora, await readPeft(partial, lora.architecture, permuted)));
    await removeTree(replaced);
    const had = await renameIfThere(directory, replaced);
    try {
      await Deno.rename(partial, directory);
    } catch (error) {
      if (had) await Deno.rename(replaced, directory);
      throw error;
    }
  } catch (error) {
    await removeTree(partial).catch(() => {});
    throw error;
  }
  await removeTree(replaced);
}

/**
 * Reads an adapter from a PEFT folder.
 *
 * @param architecture The base model's architecture, which the folder does not contain.
 * @throws {ServiceError} `path_not_found` or `format_invalid`; `not_built` for rsLoRA, DoRA and pattern-wise ranks.
 */
export async function readPeft(
  directory: string,
  architecture: string,
  permuted: PermutedHeads = {},
): Promise<LoraTensors> {
  const config_path = `${directory}/${CONFIG}`, path = `${directory}/${WEIGHTS}`;
  const { rank, alpha } = await readConfig(config_path);
  const content = await readSafetensors(path);
  const factors = [...content.tensors.keys()].map((name): LoraFactor => {
    const match = TENSOR_NAME.exec(name);
    const target = match && LORA_TARGETS.find((target) => peftModule(target) === match[2]);
    if (!target) {
      throw formatError(path, `the tensor ${name} is not one of a supported adapter`, { tensor: name });
    }
    const shape = content.tensors.get(name)!.shape, values = floatsOf(path, content, { name });
    const factor = match[3] === "A" ? "a" : "b", heads = permuted[target];
    const is_permuted = factor === "b" && heads !== undefined;
    return {
      ...{ layer: Number(match[1]), target, factor, shape },
      values: is_permuted ? permuteRows(values, { rows: shape[0]!, heads, to: "gguf" }) : values,
    };
  });
  const lora = assembleLora({ architecture, alpha }, factors, (reason) => {
    throw formatError(path, reason);
  });
  if (lora.rank !== rank) {
    throw formatError(path, `its tensors have the rank ${lora.rank}, but ${CONFIG} says ${rank}`);
  }
  return lora;
}

async function writePeftFiles(
  directory: string,
  lora: LoraTensors,
  { base_model, permuted }: { base_model: string; permuted: PermutedHeads },
): Promise<void> {
  const tensors = new Map<string, SafetensorsTensor>();
  for (const { layer, target, key } of loraOrder(lora.layers, lora.targets)) {
    const { a, b, in: width, out } = lora.tensors.get(key)!,
      base = `${PREFIX}.${layer}.${peftModule(target)}`,
      heads = permuted[target];
    tensors.set(`${base}.lora_A.weight`, floatTensor([lora.rank, width], a));
    tensors.set(
      `${base}.lora_B.weight`,
      floatTensor(
        [out, lora.rank],
        heads === undefined ? b : permuteRows(b, { rows: out, heads, to: "peft" }),
      ),
    );
  }
  await writeSafetensors(`${directory}/${WEIGHTS}`, { metadata: new Map([["format", "pt"]]), tensors });
  const config = peftConfig(lora, base_model);
  await writeFileAtomic(`${directory}/${CONFIG}`, JSON.stringify(config, null, 2) + "\n");
}

/**
 * Rows of a matrix in the order of the other kind of file. Within a head of D rows GGUF has row 2i + j where Hugging Face
 * has row j · D/2 + i, for i below D/2 and j of 0 and 1.
 *
 * @source llama.cpp's convert_hf_to_gguf.py, `LlamaModel.permute`.
 */
export function permuteRows(
  values: Float32Array,
  { rows, heads, to }: { rows: number; heads: number; to: "gguf" | "peft" },
): Float32Array {
  const width = values.length / rows, head = rows / heads, half = head / 2;
  assert(
    Number.isInteger(half) && Number.isInteger(width),
    `${rows} rows are of ${heads} heads of even width`,
  );
  const out = new Float32Array(values.length);
  for (let gguf = 0; gguf < rows; gguf++) {
    const place = gguf % head, peft = gguf - place + (place % 2) * half + Math.floor(place / 2);
    const [from, into] = to === "peft" ? [gguf, peft] : [peft, gguf];
    out.set(values.subarray(from * width, (from + 1) * width), into * width);
  }
  return out;
}

function peftConfig(lora: Pick<LoraTensors, "rank" | "alpha" | "targets">, base_model: string) {
  return {
    peft_type: "LORA",
    task_type: "CAUSAL_LM",
    base_model_name_or_path: base_model,
    r: lora.rank,
    lora_alpha: lora.alpha,
    lora_dropout: 0,
    bias: "none",
    fan_in_fan_out: false,
    inference_mode: true,
    use_rslora: false,
    use_dora: false,
    modules_to_save: null,
    target_modules: lora.targets,
  };
}

/** Whether a folder is empty, or contains only what {@link writePeft} writes. */
export async function isWrittenPeft(directory: string): Promise<boolean> {
  const names = (await Array.fromAsync(Deno.readDir(directory))).map(({ name }) => name);
  if (names.length === 0) return true;
  if (!names.every((name) => name === CONFIG || name === WEIGHTS)) return false;
  const text = await Deno.readTextFile(`${directory}/${CONFIG}`).catch(() => "");
  try {
    // Other programs write more keys.
    const ours = Object.keys(peftConfig({ rank: 0, alpha: 0, targets: [] }, ""));
    return Object.keys(JSON.parse(text)).every((key) => ours.includes(key));
  } catch {
    return false;
  }
}

async function readConfig(path: string): Promise<{ rank: number; alpha: number }> {
  let config: Record<string, unknown>;
  try {
    config = JSON.parse(await Deno.readTextFile(path));
  } catch (error) {
    const code = error instanceof Deno.errors.NotFound ? "path_not_found" : "format_invalid";
    throw new ServiceError(code, `Cannot read ${path}: ${(error as Error).message}`, { path });
  }
  if (!isJsonObject(config)) throw formatError(path, "it is not a JSON object");
  if (config.peft_type !== "LORA") throw formatError(path, `its peft_type is ${config.peft_type}, not LORA`);
  for (const key of ["use_rslora", "use_dora", "rank_pattern", "alpha_pattern", "modules_to_save"]) {
    const value = config[key];
    if (!value || (typeof value === "object" && Object.keys(value).length === 0)) continue;
    throw new ServiceError("not_built", `Cannot read ${path}: ${key} is not supported`, { path, key });
  }
  const { r: rank, lora_alpha: alpha } = config;
  if (typeof rank !== "number" || typeof alpha !== "number") {
    throw formatError(path, "r and lora_alpha must be numbers");
  }
  return { rank, alpha };
}

async function removeTree(path: string): Promise<void> {
  await Deno.remove(path, { recursive: true }).catch(ignoreMissing);
}

async function renameIfThere(from: string, to: string): Promise<boolean> {
  try {
    await Deno.rename(from, to);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}
