/**
 * Records dispatches and submits them: one encoder, one submit, at most one readback. On a GPU it is one pass, on a software
 * adapter a pass ends where a texture is copied.
 */

import { assert } from "../core/errors.ts";
import {
  type CompiledKernel,
  compiledKernel,
  compileFailure,
  type Grid,
  type Kernel,
  type Operands,
  type Params,
  textureFormats,
} from "./kernel.ts";
import type { Gpu } from "./device.ts";
import { Staging } from "./readback.ts";
import {
  findMirror,
  fitsTexture,
  isFresh,
  isWorthCopying,
  markFresh,
  type Mirror,
  refresh,
} from "./mirrors.ts";
import { roundUp } from "./shape.ts";
import { Allocator, countWrite, type Tensor, tensorBytes } from "./tensor.ts";

/** Bytes for the parameters of one submit: 4,096 dispatches at the coarsest alignment. More go into another submit. */
const PARAMS_BYTES = 1 << 20;
/** Bytes of {@link Recorder.scratch}: what the gradients of 512 rows of logits need of models up to 8B. */
export const SCRATCH_BYTES = 48 << 20;
/** The most cached bind groups: each takes about 2 KB. */
const MAX_BIND_GROUPS = 8192;

const NONE: readonly never[] = [];

interface Dispatch {
  compiled: CompiledKernel;
  bind_group: GPUBindGroup;
  params_offset: number;
  grid: Grid;
  /** What it reads through textures, and what it writes. */
  textured: readonly Textured[];
  written: readonly GPUBuffer[];
}

/** An operand and its texture. */
interface Textured {
  name: string;
  mirror: Mirror;
  tensor: Tensor;
  /** Whether the dispatch writes the texture as it writes the tensor. */
  is_stored: boolean;
}

/** Counts since a recorder was made. */
export interface RecorderCounters {
  submits: number;
  readbacks: number;
  dispatches: number;
}

/**
 * Writes the queue. Bind groups are cached; the parameters of all dispatches of a submit share one buffer.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { openGpu } from "./device.ts";
 * import { fill } from "./rows/rows.ts";
 * import { Allocator } from "./tensor.ts";
 *
 * const gpu = await openGpu({ device: "auto", webgpu: "auto" }).catch((error) => {
 *   console.log(`skipped: ${error.message}`);
 * });
 * if (gpu) {
 *   const allocator = new Allocator(gpu.device), recorder = new Recorder(gpu);
 *   const x = allocator.create("example", [4]);
 *   fill(recorder, x, 7);
 *   const [bytes] = await recorder.submitAndRead([x]);
 *   assert.deepEqual([...new Float32Array(bytes!)], [7, 7, 7, 7]);
 *   gpu.device.destroy();
 * }
 * ```
 */
export class Recorder {
  readonly counters: RecorderCounters = { submits: 0, readbacks: 0, dispatches: 0 };
  readonly #bind_groups = new Map<string, GPUBindGroup>();
  readonly #buffer_ids = new WeakMap<GPUBuffer, number>();
  readonly #align: number;
  readonly #most_groups: number;
  readonly #buffers: Allocator;
  /** One for each read that is under way at a time; the first is the one in use when there is only one. */
  readonly #stagings: Staging[] = [];
  readonly #reading = new Set<Staging>();
  readonly #empty: GPUBuffer;
  #next_buffer_id = 1;
  readonly #params: GPUBuffer;
  readonly #params_data: DataView<ArrayBuffer>;
  #params_bytes = 0;
  #scratch: Tensor | null = null;
  #dispatches: Dispatch[] = [];
  /** Where textures are made; those that larger ones replaced, which the next submit may still use. */
  readonly #mirrors: { readonly device: GPUDevice; readonly replaced: GPUTexture[] };

  /** @param allocator Counts the recorder's own buffers; absent: they are not counted. */
  constructor(readonly gpu: Gpu, allocator: Allocator = new Allocator(gpu.device)) {
    const { minUniformBufferOffsetAlignment, maxComputeWorkgroupsPerDimension } = gpu.device.limits;
    this.#mirrors = { device: gpu.device, replaced: [] };
    this.#align = minUniformBufferOffsetAlignment;
    this.#most_groups = maxComputeWorkgroupsPerDimension;
    this.#buffers = allocator.scope();
    this.#empty = this.#buffers.createBuffer(
      "recorder",
      64,
      GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC,
    );
    const usage = GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST;
    this.#params = this.#buffers.createBuffer("recorder", PARAMS_BYTES, usage);
    this.#params_data = new DataView(new ArrayBuffer(PARAMS_BYTES));
  }

  /** A tensor of zeros for an operand that a parameter disables. */
  get empty(): Tensor {
    return { buffer: this.#empty, offset_bytes: 0, shape: [16], dtype: "f32" };
  }

  /**
   * A tensor of {@link SCRATCH_BYTES} that a dispatch writes and those right after it read: the next operation overwrites
   * it. It is allocated at first use.
   */
  get scratch(): Tensor {
    return this.#scratch ??= this.#buffers.create("recorder", [SCRATCH_BYTES / 4]);
  }

  /** Allocates {@link scratch} at once. */
  reserveScratch(): void {
    void this.scratch;
  }

  /**
   * Allocates for reading these tensors at once, so that {@link submitAndRead} of no more allocates nothing.
   *
   * @param reads How many reads of them are under way at the same time.
   */
  reserveReadback(tensors: readonly Tensor[], reads = 1): void {
    for (let i = 0; i < reads; i++) this.#staging(i).reserve(tensors);
  }

  #staging(index: number): Staging {
    return this.#stagings[index] ??= new Staging(this.#buffers);
  }

  /** Records one dispatch, with operands and parameters by name. A grid with a zero records nothing. */
  dispatch<K extends Kernel>(kernel: K, params: Params<K>, operands: Operands<K>, grid: Grid): void {
    const [x, y = 1, z = 1] = grid, limit = this.#most_groups;
    if (x === 0 || y === 0 || z === 0) return;
    // A message takes longer than the rest of a dispatch.
    if (!(Math.max(x, y, z) <= limit)) assert(false, `${kernel.name}: grid ${grid} within ${limit} per axis`);
    const compiled = this.#compiled(kernel, operands as Record<string, Tensor>, grid);
    if (this.#params_bytes + compiled.params_bytes > PARAMS_BYTES) this.submit();
    const params_offset = this.#params_bytes;
    const values = params as Record<string, number>;
    let at = params_offset;
    for (const name in kernel.params) {
      const type = kernel.params[name], value = values[name]!;
      if (type === "f32") this.#params_data.setFloat32(at, value, true);
      else if (type === "i32") this.#params_data.setInt32(at, value, true);
      else this.#params_data.setUint32(at, value, true);
      at += 4;
    }
    this.#params_bytes = roundUp(params_offset + compiled.params_bytes, this.#align);
    const tensors = operands as Record<string, Tensor>, textured = this.#textured(kernel, compiled, tensors);
    const bind_group = this.#bindGroup(kernel, compiled, { tensors, textured });
    const written = this.gpu.facts.software ? kernel.outputs.map((name) => tensors[name]!.buffer) : NONE;
    this.#dispatches.push({ compiled, bind_group, params_offset, grid, textured, written });
  }

  /** A kernel as it takes these operands: through textures where this device does so, they fit and it is worth it. */
  #compiled(kernel: Kernel, operands: Record<string, Tensor>, grid: Grid): CompiledKernel {
    const { device } = this.gpu;
    if (!kernel.textures || !this.gpu.facts.software) return compiledKernel(device, kernel);
    const names: string[] = [];
    for (const [name, format] of textureFormats(kernel)) {
      const tensor = operands[name], use = kernel.textures[name]!;
      if (!tensor) continue;
      const reads = typeof use === "function" ? use(grid) : typeof use === "number" ? use : Infinity;
      if (fitsTexture(tensor, format) && isWorthCopying(tensor, reads)) names.push(name);
      else assert(use !== "halves", `${kernel.name}: ${name} fits a texture`);
    }
    return compiledKernel(device, kernel, names);
  }

  #textured(
    kernel: Kernel,
    { formats }: CompiledKernel,
    operands: Record<string, Tensor>,
  ): readonly Textured[] {
    return formats.size === 0 ? NONE : [...formats].map(([name, format]) => {
      const tensor = operands[name]!;
      const mirror = findMirror(this.#mirrors, tensor, format);
      return { name, mirror, tensor, is_stored: kernel.textures![name] === "stored" };
    });
  }

  /** Discards what was recorded and not submitted, after a failure halfway. */
  discard(): void {
    this.#dispatches = [];
    this.#params_bytes = 0;
  }

  /** Submits what was recorded, and then a copy of a tensor's bytes to the beginning of another. */
  copy(from: Tensor, to: Tensor): void {
    const encoder = this.#encode(), bytes = tensorBytes(from.shape, from.dtype);
    encoder.copyBufferToBuffer(from.buffer, from.offset_bytes, to.buffer, to.offset_bytes, bytes);
    countWrite(to.buffer);
    this.#submit(encoder);
  }

  /** Submits what was recorded. */
  submit(): void {
    this.#submit(this.#encode());
  }

  #submit(encoder: GPUCommandEncoder): void {
    this.gpu.device.queue.submit([encoder.finish()]);
    this.counters.submits++;
    for (const texture of this.#mirrors.replaced.splice(0)) texture.destroy();
  }

  /**
   * Submits what was recorded at once, waits for it and returns the tensors' bytes. More may be submitted meanwhile.
   *
   * @throws {ServiceError} `device_lost`, or that of a kernel that did not compile.
   */
  async submitAndRead(tensors: readonly Tensor[]): Promise<ArrayBuffer[]> {
    this.counters.readbacks++;
    return await this.#submitAndRead(tensors);
  }

  /**
   * Submits what was recorded, and waits until the device has done all that was submitted. It counts as no readback.
   *
   * @throws {ServiceError} As {@link submitAndRead}.
   */
  async submitAndWait(): Promise<void> {
    await this.#submitAndRead([this.empty]);
  }

  async #submitAndRead(tensors: readonly Tensor[]): Promise<ArrayBuffer[]> {
    let index = 0;
    while (this.#reading.has(this.#staging(index))) index++;
    const staging = this.#staging(index), encoder = this.#encode();
    const offsets = staging.encode(encoder, tensors);
    this.#submit(encoder);
    this.#reading.add(staging);
    const bytes = await staging.read(tensors, offsets).finally(() => this.#reading.delete(staging));
    const failure = compileFailure(this.gpu.device);
    if (failure) throw failure;
    return bytes;
  }

  /** Discards all bind groups, because buffers were destroyed. */
  forgetAll(): void {
    this.#bind_groups.clear();
  }

  destroy(): void {
    this.#buffers.destroy();
    this.#bind_groups.clear();
    for (const texture of this.#mirrors.replaced.splice(0)) texture.destroy();
  }

  #encode(): GPUCommandEncoder {
    const { device } = this.gpu;
    if (this.#params_bytes > 0) {
      device.queue.writeBuffer(this.#params, 0, this.#params_data.buffer, 0, roundUp(this.#params_bytes, 4));
    }
    const encoder = device.createCommandEncoder();
    // Deno takes a typed array in a third of the time that a list of one number takes.
    const offsets = new Uint32Array(1);
    let pass: GPUComputePassEncoder | null = null, pipeline: GPUComputePipeline | null = null;
    for (const { compiled, bind_group, params_offset, grid, textured, written } of this.#dispatches) {
      const stale = textured.length === 0
        ? NONE
        : textured.filter(({ mirror, tensor }) => !isFresh(mirror, tensor));
      if (stale.length > 0) {
        pass?.end();
        pass = pipeline = null;
        for (const { mirror, tensor } of stale) refresh(encoder, mirror, tensor);
      }
      pass ??= encoder.beginComputePass();
      if (compiled.pipeline !== pipeline) pass.setPipeline(pipeline = compiled.pipeline);
      offsets[0] = params_offset;
      pass.setBindGroup(0, bind_group, offsets, 0, 1);
      pass.dispatchWorkgroups(grid[0], grid[1] ?? 1, grid[2] ?? 1);
      written.forEach(countWrite);
      for (const { is_stored, mirror, tensor } of textured) if (is_stored) markFresh(mirror, tensor);
    }
    pass?.end();
    this.counters.dispatches += this.#dispatches.length;
    this.discard();
    if (this.#bind_groups.size > MAX_BIND_GROUPS) this.#bind_groups.clear();
    return encoder;
  }

  #bindGroup(
    kernel: Kernel,
    compiled: CompiledKernel,
    { tensors, textured }: { tensors: Record<string, Tensor>; textured: readonly Textured[] },
  ): GPUBindGroup {
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
    let group = this.#bind_groups.get(key);
    if (!group) {
      this.#bind_groups.set(key, group = this.#createBindGroup(kernel, compiled, { tensors, textured }));
    }
    return group;
  }

  #createBindGroup(
    { name: label, inputs, outputs }: Kernel,
    { layout, params_bytes }: CompiledKernel,
    { tensors, textured }: { tensors: Record<string, Tensor>; textured: readonly Textured[] },
  ): GPUBindGroup {
    const views = new Map(textured.map(({ name, mirror }) => [name, mirror.view]));
    const whole = (name: string): GPUBindingResource => {
      // Up to the buffer's end, so that a tensor with another number of rows needs no other bind group. Outputs in one
      // buffer end where they end, because what is written must not overlap.
      const { buffer, offset_bytes: offset } = tensors[name]!;
      return { buffer, offset, size: ownSize(name, outputs, tensors) ?? buffer.size - offset };
    };
    const resources: GPUBindingResource[] = [
      { buffer: this.#params, size: params_bytes },
      ...inputs.map((name) => views.get(name) ?? whole(name)),
      ...outputs.map(whole),
      ...outputs.flatMap((name) => views.get(name) ?? []),
    ];
    const entries = resources.map((resource, binding) => ({ binding, resource }));
    return this.gpu.device.createBindGroup({ label, layout, entries });
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
