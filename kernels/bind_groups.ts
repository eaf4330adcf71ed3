/** The bind groups of a recorder: one for each kernel with its operands, made once. */

import { type CompiledKernel, type Kernel } from "./kernel.ts";
import type { Mirror } from "./mirrors.ts";
import { type Tensor, tensorBytes } from "./tensor.ts";

/** The most cached bind groups: each takes about 2 KB. */
const MAX_BIND_GROUPS = 8192;

/** An operand and its texture. */
export interface Textured {
  name: string;
  mirror: Mirror;
  tensor: Tensor;
  /** Whether the dispatch writes the texture as it writes the tensor. */
  is_stored: boolean;
}

/** What a kernel is given. */
export interface BoundOperands {
  tensors: Record<string, Tensor>;
  textured: readonly Textured[];
}

/** Bind groups by their kernel, its operands' places and its textures. */
export class BindGroups {
  readonly #groups = new Map<string, GPUBindGroup>();
  readonly #buffer_ids = new WeakMap<GPUBuffer, number>();
  #next_buffer_id = 1;

  /** @param params The parameters of all dispatches. */
  constructor(readonly device: GPUDevice, readonly params: GPUBuffer) {}

  /** Forgets all, because buffers were destroyed. */
  clear(): void {
    this.#groups.clear();
  }

  /** Forgets all where there are too many. */
  trim(): void {
    if (this.#groups.size > MAX_BIND_GROUPS) this.#groups.clear();
  }

  /** The bind group of a kernel with these operands, made at the first call. @throws {Error} When one is missing. */
  of(kernel: Kernel, compiled: CompiledKernel, { tensors, textured }: BoundOperands): GPUBindGroup {
    const { inputs, outputs } = kernel;
    let key = `${kernel.id}`;
    for (const { name, mirror } of textured) key += `|${name}${mirror.id}`;
    for (const name of inputs) {
      if (!compiled.formats.has(name)) key += this.#keyOf(kernel, name, tensors[name]);
    }
    for (const name of outputs) {
      key += this.#keyOf(kernel, name, tensors[name]);
      const size = outputs.length > 1 ? ownSize(name, outputs, tensors) : null;
      if (size !== null) key += `|${size}`;
    }
    let group = this.#groups.get(key);
    if (!group) this.#groups.set(key, group = this.#create(kernel, compiled, { tensors, textured }));
    return group;
  }

  #create(
    { name: label, inputs, outputs }: Kernel,
    { layout, params_bytes }: CompiledKernel,
    { tensors, textured }: BoundOperands,
  ): GPUBindGroup {
    const views = new Map(textured.map(({ name, mirror }) => [name, mirror.view]));
    const whole = (name: string): GPUBindingResource => {
      // Up to the buffer's end, so that a tensor with another number of rows needs no other bind group. Outputs in one
      // buffer end where they end, because what is written must not overlap.
      const { buffer, offset_bytes: offset } = tensors[name]!;
      return { buffer, offset, size: ownSize(name, outputs, tensors) ?? buffer.size - offset };
    };
    const resources: GPUBindingResource[] = [
      { buffer: this.params, size: params_bytes },
      ...inputs.map((name) => views.get(name) ?? whole(name)),
      ...outputs.map(whole),
      ...outputs.flatMap((name) => views.get(name) ?? []),
    ];
    const entries = resources.map((resource, binding) => ({ binding, resource }));
    return this.device.createBindGroup({ label, layout, entries });
  }

  #keyOf(kernel: Kernel, name: string, tensor: Tensor | undefined): string {
    // A message takes longer than the rest.
    if (!tensor) throw new Error(`${kernel.name} got its operand ${name}`);
    return `|${this.#idOf(tensor.buffer)}:${tensor.offset_bytes}`;
  }

  #idOf(buffer: GPUBuffer): number {
    let id = this.#buffer_ids.get(buffer);
    if (id === undefined) this.#buffer_ids.set(buffer, id = this.#next_buffer_id++);
    return id;
  }
}

/** The bytes of an output that shares its buffer with another one; null for one that does not. */
function ownSize(name: string, outputs: readonly string[], tensors: Record<string, Tensor>): number | null {
  const { buffer, shape, dtype } = tensors[name]!;
  const is_shared = outputs.some((other) => other !== name && tensors[other]?.buffer === buffer);
  return is_shared ? tensorBytes(shape, dtype) : null;
}
