/** The one place that reads from the device. It blocks the thread for at least 10 ms: call it once per step. */

import { ServiceError } from "../core/errors.ts";
import type { Tensor } from "./tensor.ts";
import { tensorBytes } from "./tensor.ts";

/** A copy of tensors into one buffer that the host maps. */
export class Staging {
  #buffer: GPUBuffer | null = null;

  constructor(readonly device: GPUDevice) {}

  get bytes(): number {
    return this.#buffer?.size ?? 0;
  }

  /** Appends the copies to an encoder and returns where each tensor's bytes will lie. */
  encode(encoder: GPUCommandEncoder, tensors: readonly Tensor[]): number[] {
    let size = 0;
    const offsets = tensors.map((tensor) => {
      const at = size;
      size += tensorBytes(tensor.shape, tensor.dtype);
      return at;
    });
    if (!this.#buffer || this.#buffer.size < size) {
      this.#buffer?.destroy();
      const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
      this.#buffer = this.device.createBuffer({ label: "staging", size: Math.max(size, 1 << 16), usage });
    }
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
    this.#buffer?.destroy();
    this.#buffer = null;
  }
}
