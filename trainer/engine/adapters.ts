/** The open adapters by name. Opens, saves and checkpoints them. */

import { ServiceError } from "../../core/errors.ts";
import { sha256OfFile } from "../../core/files.ts";
import { asChecked, type CheckedFile } from "../../core/regular_file.ts";
import type { LoraTarget } from "../../core/lora_targets.ts";
import { interpolate } from "../../kernels/interpolate/interpolate.ts";
import type { Allocator } from "../../kernels/tensor.ts";
import { readAdapter, writeAdapter } from "../formats/adapter.ts";
import type { LoraTensors } from "../formats/lora.ts";
import { type PermutedHeads, writePeft } from "../formats/peft.ts";
import {
  floatsOf,
  floatTensor,
  readSafetensors,
  type SafetensorsTensor,
  writeSafetensors,
} from "../formats/safetensors.ts";
import {
  type AdapterLayout,
  adapterLayout,
  DeviceAdapter,
  initialParameters,
  packAdapter,
  unpackAdapter,
} from "../model/device_adapter.ts";
import type { FlatArray } from "../model/flat_array.ts";
import { linearShape, type ModelShape } from "../model/model_shape.ts";
import type { Model } from "../model/transformer.ts";
import {
  type AdapterFacts,
  type AdapterSource,
  CHECKPOINT_ADAPTER,
  type EngineDemand,
  type LoraShape,
} from "../protocol/protocol.ts";

/** The file of a checkpoint with the optimiser's moments. */
export const CHECKPOINT_OPTIMIZER = "optimizer.safetensors";

/** The adapters of a run: the trained one, and those that are only read. */
export function adapterCount({ other_adapters }: EngineDemand): number {
  return 1 + other_adapters;
}

/** The adapters to allocate for. The first of them is trained and written as checkpoints, if any is. */
export interface AdapterDemand {
  lora: LoraShape;
  count: number;
  is_trained: boolean;
  /** Whether {@link Adapters.keep} is called for it; absent: false. */
  is_kept?: boolean;
}

/** The model's name, and how many adapters may be open. */
export interface AdaptersOptions {
  /** The model's name, for PEFT folders. */
  base_model: string;
  /** The most adapters that may be open at a time; absent: no limit. */
  most?: number;
  /** Files that are opened only as they were checked; absent: none. */
  files?: readonly CheckedFile[];
}

/** What an optimiser step changes, in the machine's memory. */
interface KeptState {
  params: Float32Array;
  m: Float32Array;
  v: Float32Array;
  step: number;
  version: number;
}

/** The adapters of one model. */
export class Adapters {
  readonly #adapters = new Map<string, DeviceAdapter>();
  readonly #kept = new WeakMap<DeviceAdapter, KeptState>();

  constructor(readonly allocator: Allocator, readonly model: Model, readonly options: AdaptersOptions) {}

  /** @throws {ServiceError} `path_not_found` for a name that is not open. */
  get(name: string): DeviceAdapter {
    const adapter = this.#adapters.get(name);
    if (!adapter) throw new ServiceError("path_not_found", `Cannot use adapter "${name}": it is not open`);
    return adapter;
  }

  /**
   * Allocates all that adapters of a run ever take, but for their textures on a software adapter, by the steps that opening, training and checkpoints take. The memory
   * plan calls it on a counting device.
   *
   * @returns Bytes in the machine's memory: the moments while a checkpoint is written, and a kept state.
   */
  reserve({ lora, count, is_trained, is_kept = false }: AdapterDemand): number {
    const [trained] = Array.from({ length: count }, () => this.#create(lora));
    if (!trained || !is_trained) return 0;
    const moments = Object.values(momentsOf(trained));
    for (const array of moments) array.reserveRead(this.model.recorder);
    const copies = is_kept ? [...moments, ...moments, trained.params] : moments;
    return copies.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  isOpen(name: string): boolean {
    return this.#adapters.has(name);
  }

  /**
   * Creates an adapter with new values, the values of a file, or a copy of another adapter's values.
   *
   * @throws {ServiceError} `conflict` for a name that is open, or when no more may be open; `path_not_found` or
   * `format_invalid` for the source.
   */
  async open(name: string, source: AdapterSource): Promise<AdapterFacts> {
    this.#expectRoom(name);
    if (source.type === "init") {
      // Files store alpha in f32. Rounding it here gives a resumed run the same scale.
      const adapter = this.#create({ ...source.lora, alpha: Math.fround(source.lora.alpha) });
      adapter.write(initialParameters(adapter.layout, source.seed));
      return this.#register(name, adapter);
    }
    if (source.type === "file") {
      const tensors = await readAdapter(asChecked(source.path, this.options.files ?? [])),
        layout = this.#layoutOf(tensors, source.path);
      const adapter = new DeviceAdapter(this.allocator, layout);
      adapter.write(packAdapter(layout, tensors));
      return this.#register(name, adapter);
    }
    const original = this.get(source.adapter), values = await original.params.read(this.model.recorder);
    const adapter = this.#create(original.layout.lora);
    adapter.write(values);
    return this.#register(name, adapter);
  }

  /** Frees an adapter. @throws {ServiceError} `path_not_found` for a name that is not open. */
  close(name: string): void {
    const adapter = this.get(name);
    this.#adapters.delete(name);
    adapter.free();
    this.model.recorder.forgetAll();
  }

  /**
   * adapter := from + scale · (adapter − from). The moments and the step count stay.
   *
   * @throws {ServiceError} `config_invalid` for a scale outside 0 to 1, one adapter twice, or different shapes.
   */
  interpolate(name: string, from: string, scale: number): AdapterFacts {
    const adapter = this.get(name), origin = this.get(from);
    const refuse = (reason: string) => {
      throw new ServiceError("config_invalid", `Cannot move adapter "${name}" from "${from}": ${reason}`);
    };
    if (!(scale >= 0 && scale <= 1)) refuse(`the scale ${scale} is not between 0 and 1`);
    if (adapter === origin) refuse("they are one");
    if (JSON.stringify(adapter.layout.lora) !== JSON.stringify(origin.layout.lora)) {
      refuse("their shapes differ");
    }
    for (const [i, x] of adapter.params.parts.entries()) {
      interpolate(this.model.recorder, { origin: origin.params.parts[i]!, x }, scale);
    }
    adapter.version++;
    return this.#facts(adapter);
  }

  /** Copies all that a step changes into the machine's memory, in place of an earlier copy. */
  async keep(name: string): Promise<null> {
    const adapter = this.get(name), { m, v } = momentsOf(adapter), { recorder } = this.model;
    this.#kept.delete(adapter);
    this.#kept.set(adapter, {
      params: await adapter.params.read(recorder),
      m: await m.read(recorder),
      v: await v.read(recorder),
      step: adapter.step,
      version: adapter.version,
    });
    return null;
  }

  /** Takes back all since {@link keep}. The copy stays. @throws {ServiceError} `conflict` when there is none. */
  revert(name: string): AdapterFacts {
    const adapter = this.get(name), kept = this.#kept.get(adapter), moments = momentsOf(adapter);
    if (!kept) {
      throw new ServiceError("conflict", `Cannot revert adapter "${name}": none of its states is kept`);
    }
    adapter.write(kept.params);
    moments.m.write(kept.m);
    moments.v.write(kept.v);
    adapter.step = kept.step;
    adapter.version = kept.version;
    return this.#facts(adapter);
  }

  /** Writes the adapter as GGUF to `path`, and also as a PEFT folder if `peft_dir` is not null. */
  async save(
    name: string,
    { path, peft_dir }: { path: string; peft_dir: string | null },
  ): Promise<{ bytes: number; sha256: string }> {
    const tensors = await this.#tensors(this.get(name));
    await writeAdapter(path, tensors);
    if (peft_dir !== null) {
      const { base_model } = this.options;
      await writePeft(peft_dir, tensors, { base_model, permuted: permutedHeads(this.model.shape) });
    }
    return { bytes: (await Deno.stat(path)).size, sha256: await sha256OfFile(path) };
  }

  /** Writes the adapter's file and the file of its moments. The moments keep the layout of the device. */
  async saveCheckpoint(name: string, directory: string): Promise<void> {
    const adapter = this.get(name), { elements } = adapter.layout;
    await writeAdapter(`${directory}/${CHECKPOINT_ADAPTER}`, await this.#tensors(adapter));
    const tensors = new Map<string, SafetensorsTensor>();
    for (const [key, array] of Object.entries(momentsOf(adapter))) {
      tensors.set(key, floatTensor([elements], await array.read(this.model.recorder)));
    }
    await writeSafetensors(`${directory}/${CHECKPOINT_OPTIMIZER}`, {
      metadata: new Map([["step", String(adapter.step)], ["version", String(adapter.version)]]),
      tensors,
    });
  }

  /**
   * Opens an adapter from a checkpoint. It replaces an open adapter of this name.
   *
   * @throws {ServiceError} `path_not_found` or `format_invalid` for the files; `conflict` when no more may be open.
   */
  async loadCheckpoint(name: string, directory: string): Promise<AdapterFacts> {
    const path = `${directory}/${CHECKPOINT_OPTIMIZER}`;
    const tensors = await readAdapter(`${directory}/${CHECKPOINT_ADAPTER}`);
    const layout = this.#layoutOf(tensors, directory), content = await readSafetensors(path);
    const [m, v] = ["m", "v"].map((key) => floatsOf(path, content, { name: key, shape: [layout.elements] }));
    const step = wholeNumber(path, content.metadata, "step");
    const version = wholeNumber(path, content.metadata, "version");
    // The open adapter is closed only now, when all files have been read without an error.
    if (this.#adapters.has(name)) this.close(name);
    this.#expectRoom(name);
    const adapter = new DeviceAdapter(this.allocator, layout);
    adapter.write(packAdapter(layout, tensors));
    adapter.training.m.write(m!);
    adapter.training.v.write(v!);
    adapter.step = step;
    adapter.version = version;
    return this.#register(name, adapter);
  }

  #expectRoom(name: string): void {
    const open = this.#adapters.size, { most = Infinity } = this.options;
    const reason = this.#adapters.has(name)
      ? "it is open"
      : open >= most
      ? `${open} are open, the most that this run has room for: close one first`
      : null;
    if (reason !== null) throw new ServiceError("conflict", `Cannot open adapter "${name}": ${reason}`);
  }

  #register(name: string, adapter: DeviceAdapter): AdapterFacts {
    this.#adapters.set(name, adapter);
    return this.#facts(adapter);
  }

  #facts({ layout: { lora, parameters }, version }: DeviceAdapter): AdapterFacts {
    return { lora, parameters, version };
  }

  #create(lora: LoraShape): DeviceAdapter {
    return new DeviceAdapter(this.allocator, adapterLayout(this.model.shape, lora));
  }

  /** @throws {ServiceError} `format_invalid` for an adapter of another model. */
  #layoutOf(tensors: LoraTensors, path: string): AdapterLayout {
    const { shape } = this.model, { architecture, layers, rank, alpha, targets } = tensors;
    const refuse = (reason: string) => {
      throw new ServiceError("format_invalid", `Cannot use the adapter ${path}: ${reason}`, { path });
    };
    if (architecture !== shape.architecture) {
      refuse(`it is for ${architecture}, the model is ${shape.architecture}`);
    }
    const own = shape.layers.length;
    if (layers !== own) refuse(`it has ${layers} layers, the model ${own}`);
    for (const [key, pair] of tensors.tensors) {
      const { in_width, out_width } = linearShape(shape, key.split(".")[2] as LoraTarget);
      if (pair.in !== in_width || pair.out !== out_width) {
        refuse(`${key} is ${pair.out} × ${pair.in}, the model's is ${out_width} × ${in_width}`);
      }
    }
    return adapterLayout(shape, { rank, alpha, targets });
  }

  async #tensors(adapter: DeviceAdapter): Promise<LoraTensors> {
    return unpackAdapter(adapter.layout, this.model.shape, await adapter.params.read(this.model.recorder));
  }
}

/** The optimiser's arrays that a checkpoint stores, by their names in its file. */
function momentsOf({ training: { m, v } }: DeviceAdapter): { m: FlatArray; v: FlatArray } {
  return { m, v };
}

function wholeNumber(path: string, metadata: Map<string, string>, key: string): number {
  const value = Number(metadata.get(key));
  if (Number.isInteger(value) && value >= 0) return value;
  throw new ServiceError(
    "format_invalid",
    `Cannot read ${path}: its metadata ${key} is ${metadata.get(key)}`,
    { path },
  );
}

/** The projections whose rows are permuted between GGUF and PEFT, with their numbers of heads. */
function permutedHeads({ qk_permuted, heads, kv_heads }: ModelShape): PermutedHeads {
  return qk_permuted ? { q_proj: heads, k_proj: kv_heads } : {};
}
