/**
 * Reads from the device. Once a device is open, no other file does. In Deno's WebGPU reading blocks the thread until the
 * device has done all that was submitted ({@link blocksReads}): call it once per step.
 */

import { ServiceError } from "../core/errors.ts";
import { hearMessages } from "../core/pauses.ts";
import { type Allocator, type Tensor, tensorBytes } from "./tensor.ts";
import type { GpuCard } from "../core/device.ts";
import { webGpuProvider } from "./webgpu/choose_provider.ts";
import { isMappedEarly } from "./webgpu/deno_provider.ts";

const MIN_BYTES = 1 << 16;

/**
 * Whether a read blocks the thread until the device has done all that was submitted: what was submitted behind the copies
 * then only delays them.
 */
export function blocksReads({ facts }: Pick<GpuCard, "facts">): boolean {
  return webGpuProvider(facts.webgpu).blocks_reads;
}

/** Copies tensors into one buffer that the host maps. */
export class Staging {
  readonly #allocator: Allocator;
  #scope: Allocator | null = null;
  #buffer: GPUBuffer | null = null;
  /** The buffer that was mapped before. */
  #mapped: GPUBuffer | null = null;

  constructor(allocator: Allocator) {
    this.#allocator = allocator;
  }

  /** Allocates for reading these tensors at once. */
  reserve(tensors: readonly Tensor[]): void {
    const size = tensors.reduce((sum, { shape, dtype }) => sum + tensorBytes(shape, dtype), 0);
    if (this.#buffer && this.#buffer.size >= size) return;
    this.destroy();
    this.#scope = this.#allocator.scope();
    const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
    this.#buffer = this.#scope.createBuffer("staging", Math.max(size, MIN_BYTES), usage);
  }

  /** Appends the copies to an encoder and returns the offset of each tensor's bytes. */
  encode(encoder: GPUCommandEncoder, tensors: readonly Tensor[]): number[] {
    let size = 0;
    const offsets = tensors.map((tensor) => {
      const at = size;
      size += tensorBytes(tensor.shape, tensor.dtype);
      return at;
    });
    this.reserve(tensors);
    tensors.forEach((tensor, i) => {
      const bytes = tensorBytes(tensor.shape, tensor.dtype);
      encoder.copyBufferToBuffer(tensor.buffer, tensor.offset_bytes, this.#buffer!, offsets[i]!, bytes);
    });
    return offsets;
  }

  /** Waits for the submitted copies and returns each tensor's bytes. @throws {ServiceError} `device_lost`. */
  async read(tensors: readonly Tensor[], offsets: readonly number[]): Promise<ArrayBuffer[]> {
    const buffer = this.#buffer!, last = tensors.length - 1;
    const end = last < 0 ? 0 : offsets[last]! + tensorBytes(tensors[last]!.shape, tensors[last]!.dtype);
    let all: ArrayBuffer, early: ArrayBuffer | null;
    try {
      const mapped = buffer.mapAsync(GPUMapMode.READ);
      early = this.#mappedEarly(buffer, mapped, end);
      all = early ?? await mapped.then(() => buffer.getMappedRange(0, end));
    } catch (error) {
      throw new ServiceError("device_lost", `Cannot read from the device: ${(error as Error).message}`);
    }
    this.#mapped = buffer;
    const out = tensors.map((tensor, i) =>
      all.slice(offsets[i]!, offsets[i]! + tensorBytes(tensor.shape, tensor.dtype))
    );
    buffer.unmap();
    // The device's events say what the bytes are worth.
    if (early) await hearMessages();
    return out;
  }

  /** The mapped bytes before the promise of `mapAsync` is fulfilled; null where they cannot be had. */
  #mappedEarly(buffer: GPUBuffer, mapped: Promise<unknown>, end: number): ArrayBuffer | null {
    if (this.#mapped !== buffer || !isMappedEarly(buffer)) return null;
    let all: ArrayBuffer;
    try {
      all = buffer.getMappedRange(0, end);
    } catch {
      // The device has failed: the promise says how.
      return null;
    }
    mapped.catch(() => {});
    return all;
  }

  destroy(): void {
    this.#scope?.destroy();
    this.#scope = this.#buffer = this.#mapped = null;
  }
}
