/**
 * Reads from the device. Once a device is open, no other file does. Reading blocks the thread for at least 10 ms: call
 * it once per step.
 */

import { ServiceError } from "../core/errors.ts";
import { type Allocator, type Tensor, tensorBytes } from "./tensor.ts";

const MIN_BYTES = 1 << 16;

/** Copies tensors into one buffer that the host maps. */
export class Staging {
  readonly #allocator: Allocator;
  #scope: Allocator | null = null;
  #buffer: GPUBuffer | null = null;

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
    const buffer = this.#buffer!;
    try {
      await buffer.mapAsync(GPUMapMode.READ);
    } catch (error) {
      throw new ServiceError("device_lost", `Cannot read from the device: ${(error as Error).message}`);
    }
    const last = tensors.length - 1;
    const end = last < 0 ? 0 : offsets[last]! + tensorBytes(tensors[last]!.shape, tensors[last]!.dtype);
    const all = buffer.getMappedRange(0, end);
    const out = tensors.map((tensor, i) =>
      all.slice(offsets[i]!, offsets[i]! + tensorBytes(tensor.shape, tensor.dtype))
    );
    buffer.unmap();
    return out;
  }

  destroy(): void {
    this.#scope?.destroy();
    this.#scope = this.#buffer = null;
  }
}
