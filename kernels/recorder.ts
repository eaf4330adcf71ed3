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
import { BindGroups, type Textured } from "./bind_groups.ts";
import type { Gpu } from "./device.ts";
import { Staging } from "./readback.ts";
import { findMirror, fitsTexture, isFresh, isWorthCopying, markFresh, refresh } from "./mirrors.ts";
import { roundUp } from "./shape.ts";
import { Allocator, countWrite, type Tensor, tensorBytes } from "./tensor.ts";

/** Bytes for the parameters of one submit: 4,096 dispatches at the coarsest alignment. More go into another submit. */
const PARAMS_BYTES = 1 << 20;
/** Bytes of {@link Recorder.scratch}: what the gradients of 512 rows of logits need of models up to 8B. */
export const SCRATCH_BYTES = 48 << 20;

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

/** Dispatches that were recorded one after the other. */
interface Recorded {
  readonly dispatches: readonly Dispatch[];
  /** Where the parameters of the first one lay, and those of all of them. */
  readonly params_offset: number;
  readonly params: Uint8Array<ArrayBuffer>;
  /** Of the recorder at that time. */
  readonly age: number;
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
  readonly #bind_groups: BindGroups;
  readonly #align: number;
  readonly #most_groups: number;
  readonly #buffers: Allocator;
  /** One for each read that is under way at a time; the first is the one in use when there is only one. */
  readonly #stagings: Staging[] = [];
  readonly #reading = new Set<Staging>();
  readonly #empty: GPUBuffer;
  readonly #params: GPUBuffer;
  readonly #params_data: DataView<ArrayBuffer>;
  #params_bytes = 0;
  #scratch: Tensor | null = null;
  #dispatches: Dispatch[] = [];
  /** Changes when what a dispatch used may be gone. */
  #age = 0;
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
    this.#bind_groups = new BindGroups(gpu.device, this.#params);
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
    const bind_group = this.#bind_groups.of(kernel, compiled, { tensors, textured });
    const written = this.gpu.facts.software ? kernel.outputs.map((name) => tensors[name]!.buffer) : NONE;
    this.#dispatches.push({ compiled, bind_group, params_offset, grid, textured, written });
  }

  /**
   * For dispatches that are recorded several times with the same operands and parameters: a function that records what
   * `body` dispatches. It runs `body` the first time, and again only when its dispatches may be worth nothing: after {@link
   * forgetAll} or {@link discard}, when a texture was replaced, or when a part of them was submitted in between. Whatever
   * else `body` does, such as writing tensors, is done only when it runs. Recording takes the host several times as long as
   * submitting.
   */
  repeatable(body: () => void): () => void {
    let recorded: Recorded | null = null;
    return () => {
      if (!recorded || !this.#recordAgain(recorded)) recorded = this.#record(body);
    };
  }

  /** Records what `body` records. Null when it cannot be recorded again. */
  #record(body: () => void): Recorded | null {
    const first = this.#dispatches.length, params_offset = this.#params_bytes, { submits } = this.counters;
    // What the body itself makes void is so from the start.
    const age = this.#age;
    body();
    if (this.counters.submits !== submits) return null;
    const params = new Uint8Array(this.#params_data.buffer).slice(params_offset, this.#params_bytes);
    return { dispatches: this.#dispatches.slice(first), params_offset, params, age };
  }

  /** @returns Whether it could. */
  #recordAgain({ dispatches, params_offset, params, age }: Recorded): boolean {
    if (this.#params_bytes + params.length > PARAMS_BYTES) this.submit();
    if (age !== this.#age) return false;
    const moved = this.#params_bytes - params_offset;
    new Uint8Array(this.#params_data.buffer).set(params, this.#params_bytes);
    this.#params_bytes += params.length;
    for (const dispatch of dispatches) {
      this.#dispatches.push({ ...dispatch, params_offset: dispatch.params_offset + moved });
    }
    return true;
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

  /** Whether something was recorded and not submitted. */
  get has_recorded(): boolean {
    return this.#dispatches.length > 0;
  }

  /** Discards what was recorded and not submitted, after a failure halfway. */
  discard(): void {
    this.#age++;
    this.#clear();
  }

  #clear(): void {
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

  /**
   * Submits what was recorded to a GPU, which works on it while more is recorded, so that none of its submits takes as long as
   * an operating system lets one take. On a software adapter, which is given work as seldom as possible, nothing.
   */
  submitToGpu(): void {
    if (!this.gpu.facts.software) this.submit();
  }

  #submit(encoder: GPUCommandEncoder): void {
    this.gpu.device.queue.submit([encoder.finish()]);
    this.counters.submits++;
    this.#destroyReplaced();
  }

  /** Destroys the textures that larger ones replaced. */
  #destroyReplaced(): void {
    const replaced = this.#mirrors.replaced.splice(0);
    if (replaced.length > 0) this.#age++;
    for (const texture of replaced) texture.destroy();
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
    this.#age++;
    this.#bind_groups.clear();
  }

  destroy(): void {
    this.#buffers.destroy();
    this.#bind_groups.clear();
    this.#destroyReplaced();
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
    this.#clear();
    this.#bind_groups.trim();
    return encoder;
  }
}
